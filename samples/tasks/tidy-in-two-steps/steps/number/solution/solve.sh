#!/bin/bash
awk '{ print NR " " $0 }' /app/names.txt > /app/names.new && mv /app/names.new /app/names.txt
