"""Runs the hidden tests on a submission and writes the reward: 1 only if every test that must pass has passed.

Runs as root: applies the submission, copies the tests over it, lets an unprivileged user run them, kills all processes of
that user, and only then reads the report. The reward is 0 if any of these steps fails.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import traceback

TESTS = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, TESTS)

import processes  # noqa: E402
import reports  # noqa: E402
import submission  # noqa: E402
from processes import BrokenRun  # noqa: E402

LOGS = '/logs/verifier'
ARTIFACTS = '/logs/artifacts'
SUBMISSION = ARTIFACTS + '/submission.patch'
# Maximum number of characters of an explanation in the report.
DETAIL_CHARACTERS = 4000
# Files with the tests that must pass. A task without guards lacks the last one.
LISTS = ('f2p.json', 'p2p.json', 'guards.json')
# Exit code without a verdict: a sandbox of an ordinary user has no second user that could run the tests.
NO_SECOND_USER = 75


def main():
    os.umask(0o022)
    os.makedirs(LOGS, exist_ok=True)
    remove_contents(LOGS)
    write('reward.txt', '0\n')
    try:
        require_private(LOGS)
        require_private(TESTS)
        close_if_possible(ARTIFACTS)
        outcome = run_tests()
    except BrokenRun as error:
        outcome = {'kind': 'broken', 'reason': error.reason, 'detail': error.detail[-DETAIL_CHARACTERS:]}
    except SystemExit:
        raise
    except BaseException:
        outcome = {'kind': 'broken', 'reason': 'no_report', 'detail': traceback.format_exc()[-DETAIL_CHARACTERS:]}
    write('report.json', json.dumps(outcome))
    if compute_reward(outcome) == 1:
        write('reward.txt', '1\n')


def run_tests():
    """Applies the submission, runs the tests on it, and returns the outcome for `report.json`."""
    plan = read_json('run.json')
    hidden = read_json('hidden.json')
    repository = plan['repository']
    require_second_user(plan['uid'])
    add_hosts(plan.get('hosts', []))
    notes = submission.apply(repository, SUBMISSION, plan, hidden)
    submission.copy_hidden_tests(repository, os.path.join(TESTS, 'hidden'), hidden)
    submission.set_owners(repository, plan, hidden)

    started, cpu_before = time.monotonic(), processes.children_cpu_seconds()
    user = processes.User(repository, plan)
    try:
        for line in plan['prepare']:
            code, output = user.run(line)
            if code != 0:
                raise BrokenRun('prepare_failed', f'{line}\nended with {code}.\n{output}')
        code, output = user.run(plan['command'])
    finally:
        user.kill_all()
    write_output(output)
    try:
        run = reports.read(user.report, plan, code)
    except BrokenRun as error:
        raise BrokenRun(error.reason, f'{error.detail}\n{output}') from None
    run['seconds'] = round(time.monotonic() - started, 3)
    run['cpuSeconds'] = round(processes.children_cpu_seconds() - cpu_before, 3)
    return {'kind': 'ran', 'run': run, **notes}


def require_second_user(uid):
    with tempfile.NamedTemporaryFile() as file:
        try:
            os.chown(file.name, uid, uid)
        except OSError as error:
            print('The sandbox has no second user:', error)
            sys.exit(NO_SECOND_USER)


def add_hosts(hosts):
    """Makes the names of servers that tests use resolve to the loopback address, because the servers run in this sandbox."""
    if hosts:
        with open('/etc/hosts', 'a', encoding='utf-8') as file:
            file.write('\n127.0.0.1 localhost ' + ' '.join(hosts) + '\n')


def compute_reward(outcome):
    """Returns 1 if every required test passed. Skipped and missing tests have not passed."""
    must_pass = [test for name in LISTS for test in read_json(name) or []]
    if outcome['kind'] != 'ran' or not must_pass:
        return 0
    statuses = outcome['run']['statuses']
    missing = [test for test in must_pass if statuses.get(test) != 'passed']
    for test in missing[:50]:
        print('not passed:', ascii(test))
    return 0 if missing else 1


def read_json(name):
    """Returns the content of a JSON file of the task, or None if it does not exist."""
    try:
        with open(os.path.join(TESTS, name), encoding='utf-8') as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def require_private(folder):
    """Closes a folder to other users: tests must not read the lists of tests, nor write a reward."""
    try:
        os.chmod(folder, 0o700)
    except OSError:
        pass  # It may be read-only and already closed, which is checked below.
    stats = os.lstat(folder)
    # The owner may be a user of the host, as which nothing in this sandbox runs.
    if stats.st_mode & 0o077 or stats.st_uid == read_json('run.json')['uid']:
        raise BrokenRun('no_report', f'{folder} can be opened by other users.')


def close_if_possible(folder):
    """Keeps tests from reading files that the agent left beside its patch."""
    try:
        os.chmod(folder, 0o700)
    except OSError:
        pass  # The folder does not exist or cannot be changed.


def remove_contents(folder):
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            subprocess.run(['rm', '-rf', '--', entry.path], check=True)
        else:
            os.unlink(entry.path)


def write(name, text):
    """Writes a file atomically."""
    draft = os.path.join(LOGS, '.' + name)
    with open(draft, 'w', encoding='utf-8') as file:
        file.write(text)
    os.replace(draft, os.path.join(LOGS, name))


def write_output(output):
    write('output.txt', output)
    print(output)


if __name__ == '__main__':
    main()
