"""The schedules: every hour, lookups, compaction and the report too, and the reference lists once a day. All are off until they are turned on in Dagster."""

import dagster as dg

from assets.partitions import key_of
from assets.published import WHEN_DUE
from pipelines.automation import jobs
from resources.datasets import last_complete_hour


@dg.schedule(
    name="each_hour",
    job_name=jobs.HOURLY,
    # a batch listing appears 4 to 12 minutes after the hour in most hours, later in busy ones: the discovery sensor
    # asks again for an hour that was not there yet
    cron_schedule="20 * * * *",
    execution_timezone="UTC",
    description="Takes the hour that has just ended from the service to the published file, if a publication is due.",
)
def each_hour(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    """Ask for the last complete hour; its key makes a second tick of the same hour a no-op."""
    key = key_of(last_complete_hour(context.scheduled_execution_time))
    return dg.RunRequest(run_key=key, partition_key=key, tags=WHEN_DUE)


each_day = dg.ScheduleDefinition(
    name="reference_each_day",
    job_name=jobs.REFERENCE,
    cron_schedule="40 3 * * *",
    execution_timezone="UTC",
    description="Fetches the reference lists. They change rarely, and the service asks clients to cache them.",
)

lookups_each_hour = dg.ScheduleDefinition(
    name="lookups_each_hour",
    job_name=jobs.LOOKUPS,
    cron_schedule="50 * * * *",
    execution_timezone="UTC",
    description="Looks up watched and uncertain pages, up to WME_LOOKUPS_PER_DAY a day. Each costs a unit of the account's quota.",
)

compact_each_hour = dg.ScheduleDefinition(
    name="compact_each_hour",
    job_name=jobs.COMPACT,
    # soon after each_hour has loaded its hour, whose files are read one by one until then
    cron_schedule="35 * * * *",
    execution_timezone="UTC",
    description="Compacts the lake: hours that have ended, and longer spans. The next publication shows it.",
)

report_each_hour = dg.ScheduleDefinition(
    name="report_each_hour",
    job_name=jobs.REPORT,
    # each_hour has published its hour by then
    cron_schedule="45 * * * *",
    execution_timezone="UTC",
    description="Writes the page about the mirror, report.html in the data folder, of what is published.",
)

SCHEDULES = (each_hour, each_day, lookups_each_hour, compact_each_hour, report_each_hour)
