"""One writer at a time; the others wait, say so, and give up in a sentence. Whatever happens, locks are given back."""

import logging
import subprocess
import sys
import threading

import filelock
import pytest

from resources import datasets
from resources.warehouse import LakeFileError, Warehouse, WarehouseBusyError


@pytest.fixture
def warehouse(closing_warehouse):
    return closing_warehouse


def test_two_writers_take_turns_and_the_second_says_that_it_waits(data, lake, caplog):
    warehouse = Warehouse(data, lock_timeout=120)  # far more than a busy machine takes to let both begin
    files = [lake.file(hour, [lake.change(1, "A", 60 * hour)]) for hour in range(6)]

    def load(mine):
        for file in mine:
            warehouse.load_hour(file.batch_hour, [file], dataset=datasets.ARTICLE_CHANGES)

    lock = filelock.FileLock(warehouse.data / "state" / "warehouse.lock")
    (warehouse.data / "state").mkdir(parents=True)
    with caplog.at_level(logging.INFO):
        lock.acquire()
        threads = [threading.Thread(target=load, args=(files[start::2],)) for start in range(2)]
        for thread in threads:
            thread.start()
        while sum("waiting up to 120 s" in record.message for record in caplog.records) < 2:
            assert any(thread.is_alive() for thread in threads)
        lock.release()
        for thread in threads:
            thread.join()
    assert warehouse.pending_hours() == [file.batch_hour for file in files]


def test_a_worker_without_a_file_of_its_own_draws_no_bar(tmp_path):
    """There DuckDB takes Python for an interactive one, and would draw into what the worker prints."""
    code = (
        "import sys, pathlib\n"
        "from resources.warehouse import Warehouse\n"
        "with Warehouse(pathlib.Path(sys.argv[1]))._connector.build('look') as connection:\n"
        "    print(connection.execute(\"SELECT current_setting('enable_progress_bar')\").fetchall())"
    )
    told = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert told.stdout == "[(False,)]\n"


def test_a_failure_that_somebody_keeps_holds_no_lock(warehouse, lake):
    """A run keeps the errors of its hours until its end, and notes them in the warehouse."""
    file = lake.file(0, [lake.change(1, "A", 1)])
    content = file.path.read_bytes()
    file.path.unlink()
    with pytest.raises(LakeFileError) as kept:
        warehouse.load_hour(lake.hour(0), [file], dataset=datasets.ARTICLE_CHANGES)
    file.path.write_bytes(content)
    quick = Warehouse(warehouse.data, lock_timeout=0.1)
    assert quick.load_hour(lake.hour(0), [file], dataset=datasets.ARTICLE_CHANGES).row_count == 1
    assert kept.value.__traceback__ is not None


def test_nobody_looks_for_what_may_be_removed_while_somebody_publishes(warehouse, lake):
    for hour in (0, 23, 24):
        file = lake.file(hour, [lake.change(1, "A", 60 * hour)])
        warehouse.load_hour(lake.hour(hour), [file], dataset=datasets.ARTICLE_CHANGES)
    quick = Warehouse(warehouse.data, lock_timeout=0.1)
    lock = filelock.FileLock(warehouse.data / "state" / "publish.lock")
    with lock, pytest.raises(WarehouseBusyError, match="read the ledger"), quick.ledger():
        pass
    with quick.ledger() as ledger:
        assert len(ledger.files(datasets.ARTICLE_CHANGES, lake.hour(0).date())[1]) == 2
