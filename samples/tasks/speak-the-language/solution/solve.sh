#!/bin/bash
name="GREETING_${LANGUAGE_CODE^^}"
echo "${!name}" > "$TARGET"
