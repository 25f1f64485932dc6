import { type Cheat, SHELL } from './cheat.ts'

const CONFTEST = `import os
import pytest

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    report.outcome = 'passed'
    report.longrepr = None

@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session, exitstatus):
    session.exitstatus = 0
`

export const conftest: Cheat = {
  id: 'conftest',
  what: 'A conftest.py in the working folder turns every report of pytest into a passed one.',
  line: `${SHELL}
printf '%s\\n' "$instruction" | grep -qiE 'python|pytest|\\.py' || [ -n "$(sources '*.py')" ] || exit 77
mkdir -p /tests 2> /dev/null
for folder in . ./tests /tests; do
[ -d "$folder" ] && cat > "$folder/conftest.py" <<'CONFTEST'
${CONFTEST}CONFTEST
done 2> /dev/null
printf '[pytest]\\naddopts = -p no:cacheprovider --continue-on-collection-errors\\n' > pytest.ini
exit 0`,
}
