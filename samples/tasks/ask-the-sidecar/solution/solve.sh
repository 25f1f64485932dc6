#!/bin/bash
echo $(( $(curl -fsS http://oracle:8000/riddle) )) > /app/answer.txt
