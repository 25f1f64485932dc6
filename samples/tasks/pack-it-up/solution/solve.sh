#!/bin/bash
tar -cf /app/album.tar -C /app --exclude-from=/solution/exclude.txt album
