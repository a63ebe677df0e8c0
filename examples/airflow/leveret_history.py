"""Airflow keeps the history of a broker: every hour the archive is brought up to date, every night there is a report.

Put this file among your DAGs, where `leveret[pipeline]` and a Java are installed, and set the variables below.
"""

import os
from datetime import datetime

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

DATA = os.environ.get("LEVERET_DATA", "/var/lib/leveret/data")
HANDED = os.environ.get("LEVERET_ARCHIVE_DIR", "/var/lib/leveret/handed")
ARCHIVE = os.environ.get("LEVERET_ARCHIVE", "/var/lib/leveret/archive")
REPORTS = os.environ.get("LEVERET_REPORTS", "/var/lib/leveret/reports")

with DAG("leveret_history", schedule="@hourly", start_date=datetime(2026, 1, 1), catchup=False, max_active_runs=1):
    # One job changes an archive at a time; one that is killed is simply run again.
    archive = BashOperator(
        task_id="archive",
        bash_command=f"leveret pipeline archive --path {DATA} --archive {HANDED} --out {ARCHIVE} --remove-segments",
        retries=3,
    )
    report = BashOperator(
        task_id="report",
        bash_command=f"leveret pipeline report --path {ARCHIVE} --since {{{{ ds }}}} --out {REPORTS}/{{{{ ds }}}}",
    )
    archive >> report
