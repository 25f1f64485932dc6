#!/bin/bash
tr '[:lower:]' '[:upper:]' < /app/token > /app/TOKEN
