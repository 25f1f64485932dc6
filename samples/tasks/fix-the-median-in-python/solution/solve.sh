#!/bin/bash
cat > /tmp/median.patch <<'PYTHON'
    ordered = sorted(numbers)
    middle = len(ordered) // 2
    if len(ordered) % 2 == 0:
        return (ordered[middle - 1] + ordered[middle]) / 2
    return ordered[middle]
PYTHON
sed -i -e '/ordered = sorted/r /tmp/median.patch' -e '/ordered = sorted/d' -e '/return ordered\[len/d' /app/median.py
rm /tmp/median.patch
