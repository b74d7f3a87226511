"""The history of pages: the page table, the scripts that pages play, and their timetable."""
