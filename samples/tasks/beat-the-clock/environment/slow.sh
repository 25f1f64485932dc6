#!/bin/bash
sum=0
for ((number = 1; number <= $1; number++)); do
  sum=$((sum + number))
done
echo "$sum"
