#!/bin/bash
LC_ALL=C sort -o /app/names.txt /app/names.txt
