CREATE MACRO main.infobox_values(wanted) AS TABLE
SELECT project_id, article_id, name, infobox_name, heading, label, value, position
FROM infobox_fields
WHERE lower(label) = lower(wanted)
