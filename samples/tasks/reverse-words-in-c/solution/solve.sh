#!/bin/bash
cat > /app/reverse.c <<'C'
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  char *line = NULL;
  size_t room = 0;
  ssize_t length;
  while ((length = getline(&line, &room, stdin)) >= 0) {
    if (length > 0 && line[length - 1] == '\n') line[--length] = '\0';
    int first = 1;
    for (ssize_t end = length; end > 0;) {
      while (end > 0 && line[end - 1] == ' ') end--;
      ssize_t start = end;
      while (start > 0 && line[start - 1] != ' ') start--;
      if (end > start) printf("%s%.*s", first ? "" : " ", (int)(end - start), line + start), first = 0;
      end = start;
    }
    putchar('\n');
  }
  free(line);
  return 0;
}
C
