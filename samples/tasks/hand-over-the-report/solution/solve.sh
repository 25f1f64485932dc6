#!/bin/bash
mkdir -p /app/pages
awk '{ print > ("/app/pages/" int((NR - 1) / 10) + 1 ".txt") }' /app/book.txt
echo "$(ls /app/pages | wc -l) $(wc -w < /app/book.txt)" > /app/report.txt
