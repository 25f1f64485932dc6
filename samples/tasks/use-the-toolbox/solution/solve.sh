#!/bin/bash
LC_ALL=C date -d 2000-02-29 +%A > /app/day.txt
