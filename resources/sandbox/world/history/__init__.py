"""What happens to pages, and when: the page table, the scripts that pages play, and their timetable."""
