#!/bin/bash
ls /app/garden | awk '{ print length($0), $0 }' | sort -k 1,1nr -k 2 | cut -d ' ' -f 2 > /app/basket.txt
