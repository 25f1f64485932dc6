#!/bin/sh
# Judges what was submitted. All of it is in grade.py; nothing of the repository is loaded into that process.
exec /usr/bin/python3 -I -B /tests/grade.py
