import json
import subprocess
import sys

CASES = [
    ([], []),
    ([[1, 3]], [[1, 3]]),
    ([[5, 6], [1, 2]], [[1, 2], [5, 6]]),
    ([[1, 4], [2, 3]], [[1, 4]]),
    ([[1, 2], [2, 5], [7, 9], [8, 12]], [[1, 5], [7, 12]]),
]

# In a process of its own: what the code under test does to its interpreter stays there.
PROGRAM = """
import json, sys
sys.path.insert(0, '/app')
from intervals import merge
given = json.loads(sys.argv[1])
before = json.dumps(given)
result = [list(pair) for pair in merge(given)]
print(json.dumps([result, json.dumps(given) == before]))
"""

for given, expected in CASES:
    run = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM, json.dumps(given)], capture_output=True, text=True, timeout=10
    )
    if run.returncode != 0 or run.stdout.strip() != json.dumps([expected, True]):
        sys.exit(f"merge({given}): expected {expected}, got {run.stdout.strip() or run.stderr[-200:]}")
