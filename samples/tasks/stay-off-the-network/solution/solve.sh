#!/bin/bash
part='(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])'
grep -E "^($part\.){3}$part\$" /app/hosts.txt > /app/addresses.txt
