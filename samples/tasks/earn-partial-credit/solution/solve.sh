#!/bin/bash
cd /app/drafts || exit 1
sed -i 's/ *$//' spaces.txt
cat -s blank.txt > new && mv new blank.txt
tr '[:upper:]' '[:lower:]' < case.txt > new && mv new case.txt
printf '%s\n' "$(cat end.txt)" > new && mv new end.txt
