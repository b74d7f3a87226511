import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="Ten first questions")

with app.setup:
    import inspect
    import sys

    import altair as alt
    import marimo as mo

    from pipelines.notebook import connect
    from resources.warehouse import NotPublishedError


@app.cell(hide_code=True)
def _():
    say("""
    # Ten first questions

    Each question shows its SQL, its answer and, where useful, a plot. Change the SQL and run the cell again: every cell
    that depends on it is updated. All times are in UTC. The published file is opened read-only, so this notebook cannot
    change the mirror. To open a newer published file, run the next cell again.

    `docs/cookbook.md` explains every view and macro, `docs/structured.md` those of structured contents and Wikidata.
    `docs/tables/README.md` lists every column.
    """)
    return


@app.cell
def _():
    try:
        mirror = connect()  # of the data folder that WME_DATA names; connect("/srv/mirror/data") opens another one
    except NotPublishedError as error:
        if not mo.running_in_notebook():
            sys.exit(str(error))
        mo.stop(True, mo.callout(mo.md(str(error)), kind="warn"))
    return (mirror,)


@app.cell(hide_code=True)
def _():
    @alt.theme.register("light_and_dark", enable=True)
    def theme():
        """Colours with a contrast of 3:1 or more on white and on the dark background of plots."""
        colours = ["#3987e5", "#d16a14", "#2a9d8f", "#b267d6", "#e5484d"]
        return alt.theme.ThemeConfig(config={"mark": {"color": colours[0]}, "range": {"category": colours}})

    return


@app.function(hide_code=True)
def say(text):
    """Show text; run as a script, print it."""
    if not mo.running_in_notebook():
        print(inspect.cleandoc(text), end="\n\n")
    return mo.md(text)


@app.cell(hide_code=True)
def _(mirror):
    def ask(query, **parameters):
        """Answer with an Arrow table; run as a script, print it too."""
        answer = mirror.sql(query, params=parameters).to_arrow_table()
        if not mo.running_in_notebook():
            mirror.from_arrow(answer).show(max_width=160)
        return answer

    return (ask,)


@app.cell(hide_code=True)
def _():
    say("""
    ## 1. How much is here, and how fresh is it?

    One row for each project and namespace. `whole_project` is true if all its pages are here, and false if only
    changed pages are here. No hour is missing until `exact_until_at`, which is empty without a snapshot.
    """)
    return


@app.cell
def _(ask):
    coverage = ask("""
        SELECT
          project_id,
          namespace_id,
          base_snapshot IS NOT NULL AS whole_project,
          count(article_id) AS article_count,
          date_trunc('minute', exact_until_at) AS exact_until_at,
          date_trunc('minute', max(event_at)) AS newest_change_at,
          date_diff('minute', max(event_at), now()) AS minutes_behind
        FROM project_state
        LEFT JOIN articles USING (project_id, namespace_id)
        GROUP BY ALL
        ORDER BY ALL
    """)
    coverage
    return


@app.cell(hide_code=True)
def _():
    say("""
    ## 2. What happened, hour by hour?

    Edits of the last two days in the five most edited projects. The newest hour is incomplete, because its own file is
    not published yet.
    """)
    return


@app.cell
def _(ask):
    hourly_edits = ask("""
        SELECT hour_at, project_id, sum(edit_count)::BIGINT AS edit_count, sum(bot_count)::BIGINT AS bot_count
        FROM activity
        WHERE
          hour_at > (SELECT max(hour_at) FROM activity) - INTERVAL 2 DAY
          AND project_id IN (SELECT project_id FROM activity GROUP BY ALL ORDER BY sum(edit_count) DESC LIMIT 5)
        GROUP BY ALL
        ORDER BY ALL
    """)
    hourly_edits
    return (hourly_edits,)


@app.cell
def _(hourly_edits):
    hourly_plot = (
        alt.Chart(hourly_edits, title="Edits per hour", description="Stacked bars: the edits of each hour, by project.")
        .mark_bar()
        .encode(
            x=alt.X("utcyearmonthdatehours(hour_at):T", title="Hour (UTC)"),
            y=alt.Y("edit_count:Q", title="Edits"),
            color=alt.Color("project_id:N", title="Project"),
            tooltip=["utcyearmonthdatehours(hour_at):T", "project_id:N", "edit_count:Q", "bot_count:Q"],
        )
        .properties(width="container")
    )
    hourly_plot
    return


@app.cell(hide_code=True)
def _():
    say("""
    ## 3. Which pages were edited most?

    Pages with the number of their revisions among the loaded changes. Each revision counts once. Deleted pages are left
    out.
    """)
    return


@app.cell
def _(ask):
    most_edited = ask("""
        SELECT concat(project_id, ': ', name) AS page, project_id, article_id, edit_count, editor_count, bot_count,
            last_edit_at
        FROM most_edited
        SEMI JOIN articles USING (project_id, article_id)
        ORDER BY edit_count DESC, last_edit_at DESC
        LIMIT 15
    """)
    most_edited
    return (most_edited,)


@app.cell
def _(most_edited):
    most_edited_plot = (
        alt.Chart(
            most_edited, title="Most edited pages", description="Bars: the edits of each of these pages, most first."
        )
        .mark_bar()
        .encode(
            x=alt.X("edit_count:Q", title="Edits", axis=alt.Axis(tickMinStep=1)),
            y=alt.Y("page:N", title="Page", sort="-x", axis=alt.Axis(labelLimit=300)),
            tooltip=["page:N", "edit_count:Q", "editor_count:Q"],
        )
        .properties(width="container")
    )
    most_edited_plot
    return


@app.cell(hide_code=True)
def _():
    say("""
    ## 4. Which pages are new?

    Current pages by the time of their first revision, newest first.
    """)
    return


@app.cell
def _(ask):
    new_pages = ask("""
        SELECT project_id, name, created_at, editor_name, size_bytes, abstract
        FROM newest_articles
        LIMIT 10
    """)
    new_pages
    return


@app.cell(hide_code=True)
def _():
    say("""
    ## 5. What was deleted and moved?

    The most recent of both. A deleted page may also have become a redirect: the service does not say which. A move has
    a new name.
    """)
    return


@app.cell
def _(ask):
    deleted_and_moved = ask("""
        (
          SELECT 'deleted' AS what, project_id, name, NULL AS new_name, deleted_at AS event_at
          FROM deleted_articles
          LIMIT 10
        )
        UNION ALL
        (
          SELECT DISTINCT 'moved', project_id, replace(gone.name, '_', ' '), came.name, came.event_at
          FROM article_changes AS gone
          JOIN article_changes AS came USING (project_id, event_id)
          WHERE
            gone.change_type = 'delete'
            AND came.change_type = 'update'
            AND replace(gone.name, '_', ' ') <> replace(came.name, '_', ' ')
          ORDER BY came.event_at DESC
          LIMIT 10
        )
        ORDER BY event_at DESC
    """)
    deleted_and_moved
    return


@app.cell
def _(ask):
    hourly_pages = ask("""
        UNPIVOT (
          SELECT
            hour_at,
            sum(creation_count)::BIGINT AS created,
            sum(deletion_count)::BIGINT AS deleted,
            sum(move_count)::BIGINT AS moved
          FROM activity
          WHERE hour_at > (SELECT max(hour_at) FROM activity) - INTERVAL 2 DAY
          GROUP BY ALL
        )
        ON created, deleted, moved
        INTO NAME what VALUE page_count
        ORDER BY ALL
    """)
    pages_plot = (
        alt.Chart(
            hourly_pages,
            title="Pages created, deleted and moved",
            description="Three groups of bars: the pages created, deleted and moved in each hour, all projects "
            "together.",
        )
        .mark_bar()
        .encode(
            x=alt.X("utcyearmonthdatehours(hour_at):T", title="Hour (UTC)"),
            y=alt.Y("page_count:Q", title="Pages"),
            color=alt.Color("what:N", title="Pages"),
            tooltip=["utcyearmonthdatehours(hour_at):T", "what:N", "page_count:Q"],
        )
        .properties(width="container")
    )
    pages_plot
    return


@app.cell(hide_code=True)
def _():
    say("""
    ## 6. What is the history of a page, and how was it at a moment?

    All known states of one page of question 3, oldest first. Then the page as it is now, and as it was just before its
    last change.
    """)
    return


@app.cell(hide_code=True)
def _(most_edited):
    page_choice = mo.ui.dropdown(
        {page["page"]: page for page in most_edited.to_pylist()}, value=most_edited["page"][0].as_py(), label="Page"
    )
    page_choice
    return (page_choice,)


@app.cell
def _(ask, page_choice):
    history = ask(
        """
        SELECT event_at, change_type, name, editor_name, version_comment, character_count
        FROM article_history($project, $article)
        """,
        project=page_choice.value["project_id"],
        article=page_choice.value["article_id"],
    )
    history
    return (history,)


@app.cell
def _(history):
    history_plot = (
        alt.Chart(
            history,
            title="Length of the page",
            description="A line with steps: the length of the page after each change.",
        )
        .mark_line(interpolate="step-after", point=True)
        .encode(
            x=alt.X("utcyearmonthdatehoursminutesseconds(event_at):T", title="Time (UTC)"),
            y=alt.Y("character_count:Q", title="Characters", scale=alt.Scale(zero=False)),
            tooltip=[
                "utcyearmonthdatehoursminutesseconds(event_at):T",
                "editor_name:N",
                "character_count:Q",
                "version_comment:N",
            ],
        )
        .properties(width="container")
    )
    history_plot
    return


@app.cell
def _(ask, page_choice):
    before_and_now = ask(
        """
        SELECT 'before' AS state, event_at, name, version_id, editor_name, character_count,
            len(categories) AS category_count
        FROM articles_at(
            (SELECT event_at FROM articles WHERE project_id = $project AND article_id = $article),
            project := $project, inexact := true
        )
        WHERE article_id = $article
        UNION ALL
        SELECT 'now', event_at, name, version_id, editor_name, character_count, len(categories)
        FROM articles
        WHERE project_id = $project AND article_id = $article
        """,
        project=page_choice.value["project_id"],
        article=page_choice.value["article_id"],
    )
    before_and_now
    return


@app.cell(hide_code=True)
def _():
    say("""
    ## 7. What does a page say?

    The beginning of the text of a page, by its title. The title of a redirect finds its page. Spaces and `_` are equal.
    """)
    return


@app.cell
def _(ask, before_and_now, page_choice):
    page_text = ask(
        """
        SELECT name, version_id, length(wikitext) AS characters, left(wikitext, 300) AS beginning
        FROM article_text($project, $title)
        """,
        project=page_choice.value["project_id"],
        title=before_and_now["name"][-1].as_py(),  # or any other: "Main Page"
    )
    page_text
    return


@app.cell(hide_code=True)
def _():
    say("""
    ## 8. Which pages of several projects are about the same thing?

    Pages about the same Wikidata item, sorted by the number of projects.
    """)
    return


@app.cell
def _(ask):
    shared_items = ask("""
        SELECT
          main_entity_id,
          count(DISTINCT project_id) AS project_count,
          string_agg(concat(project_id, ': ', name), ', ' ORDER BY project_id) AS pages
        FROM articles
        WHERE main_entity_id IS NOT NULL
        GROUP BY ALL
        HAVING project_count > 1
        ORDER BY project_count DESC, main_entity_id
        LIMIT 10
    """)
    shared_items
    return


@app.cell(hide_code=True)
def _():
    say("""
    ## 9. Which changes should somebody look at?

    Changes by people with the most signs of vandalism, and the probability of a revert according to the service. Both
    are predictions, not facts.
    """)
    return


@app.cell
def _(ask):
    candidates = ask("""
        SELECT sign_count, project_id, name, editor_name, round(revertrisk_probability, 2) AS risk,
            added_character_count, version_comment, url
        FROM vandalism_candidates
        LIMIT 10
    """)
    candidates
    return


@app.cell
def _(ask):
    risks = ask("""
        SELECT
          floor(least(revertrisk_probability, 0.99) * 10) / 10 AS risk,
          CASE WHEN editor_is_bot THEN 'bot' WHEN editor_is_anonymous THEN 'anonymous' ELSE 'registered' END AS editor,
          count(*) AS change_count
        FROM distinct_changes
        WHERE change_type = 'update' AND revertrisk_probability IS NOT NULL
        GROUP BY ALL
        ORDER BY ALL
    """)
    risks_plot = (
        alt.Chart(
            risks,
            title="Probability of being reverted",
            description="Stacked bars: the changes of each probability of being reverted, in steps of 0.1, by kind of "
            "editor.",
        )
        .mark_bar()
        .encode(
            x=alt.X("risk:O", title="Probability, from", axis=alt.Axis(format=".1f", labelAngle=0)),
            y=alt.Y("change_count:Q", title="Changes"),
            color=alt.Color("editor:N", title="Editor"),
            tooltip=["risk:O", "editor:N", "change_count:Q"],
        )
        .properties(width="container")
    )
    risks_plot
    return


@app.cell(hide_code=True)
def _():
    say("""
    ## 10. What are the pages about?

    The categories with the most current pages. `article_templates` has the same for templates.
    """)
    return


@app.cell
def _(ask):
    categories = ask("""
        SELECT concat(project_id, ': ', category_name) AS category, count(*) AS page_count
        FROM article_categories
        GROUP BY ALL
        ORDER BY page_count DESC, category
        LIMIT 15
    """)
    categories
    return (categories,)


@app.cell
def _(categories):
    categories_plot = (
        alt.Chart(
            categories,
            title="Largest categories",
            description="Bars: the pages in each of these categories, most first.",
        )
        .mark_bar()
        .encode(
            x=alt.X("page_count:Q", title="Pages"),
            y=alt.Y("category:N", title="Category", sort="-x", axis=alt.Axis(labelLimit=300)),
            tooltip=["category:N", "page_count:Q"],
        )
        .properties(width="container")
    )
    categories_plot
    return


if __name__ == "__main__":
    app.run()
