"""Runs the hidden tests on a submission and writes the reward: 1 only if every test that must pass has passed.

Root's part of the work: the submission is applied, the tests are laid over it, a user without rights runs them, all of
its processes are killed, and only then is the report read. Whatever goes wrong on the way, the reward is 0.
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
from trouble import Broken  # noqa: E402

LOGS = '/logs/verifier'
ARTIFACTS = '/logs/artifacts'
SUBMISSION = ARTIFACTS + '/submission.patch'
DETAIL_LETTERS = 4000
# Tests that must pass. A task without guards has no file of them.
LISTS = ('f2p.json', 'p2p.json', 'guards.json')
# Not a verdict: a sandbox of an ordinary user has no second one that tests could run as.
NO_SECOND_USER = 75


def main():
    os.umask(0o022)
    os.makedirs(LOGS, exist_ok=True)
    empty(LOGS)
    write('reward.txt', '0\n')
    try:
        close_to_others(LOGS)
        close_to_others(TESTS)
        hide(ARTIFACTS)
        outcome = judge()
    except Broken as trouble:
        outcome = {'kind': 'broken', 'reason': trouble.reason, 'detail': trouble.detail[-DETAIL_LETTERS:]}
    except SystemExit:
        raise
    except BaseException:
        outcome = {'kind': 'broken', 'reason': 'no_report', 'detail': traceback.format_exc()[-DETAIL_LETTERS:]}
    write('report.json', json.dumps(outcome))
    if reward(outcome) == 1:
        write('reward.txt', '1\n')


def judge():
    plan = read_json('run.json')
    hidden = read_json('hidden.json')
    repository = plan['repository']
    require_users(plan['uid'])
    notes = submission.apply(repository, SUBMISSION, plan, hidden)
    submission.lay(repository, os.path.join(TESTS, 'hidden'), hidden)
    submission.give(repository, plan, hidden)

    started, cpu_before = time.monotonic(), processes.children_cpu_seconds()
    user = processes.User(repository, plan)
    try:
        for line in plan['prepare']:
            code, said = user.run(line)
            if code != 0:
                raise Broken('prepare_failed', f'{line}\nended with {code}.\n{said}')
        code, said = user.run(plan['command'])
    finally:
        user.kill_all()
    keep_output(said)
    try:
        run = reports.read(user.report, plan, code)
    except Broken as trouble:
        raise Broken(trouble.reason, f'{trouble.detail}\n{said}') from None
    run['seconds'] = round(time.monotonic() - started, 3)
    run['cpuSeconds'] = round(processes.children_cpu_seconds() - cpu_before, 3)
    return {'kind': 'ran', 'run': run, **notes}


def require_users(uid):
    with tempfile.NamedTemporaryFile() as file:
        try:
            os.chown(file.name, uid, uid)
        except OSError as trouble:
            print('The sandbox has no second user:', trouble)
            sys.exit(NO_SECOND_USER)


def reward(outcome):
    """Skipped is not passed, and neither is a test that the report does not know."""
    must_pass = [test for name in LISTS for test in read_json(name) or []]
    if outcome['kind'] != 'ran' or not must_pass:
        return 0
    statuses = outcome['run']['statuses']
    missing = [test for test in must_pass if statuses.get(test) != 'passed']
    for test in missing[:50]:
        print('not passed:', ascii(test))
    return 0 if missing else 1


def read_json(name):
    """None when the task has no such file."""
    try:
        with open(os.path.join(TESTS, name), encoding='utf-8') as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def close_to_others(folder):
    """What must pass is nobody's business, and a reward is written by root alone."""
    try:
        os.chmod(folder, 0o700)
    except OSError:
        pass  # it may be read-only, and closed already
    stats = os.lstat(folder)
    # It may be a folder of the host, and belong to whoever started this there: nothing here runs as that user.
    if stats.st_mode & 0o077 or stats.st_uid == read_json('run.json')['uid']:
        raise Broken('no_report', f'{folder} can be opened by others.')


def hide(folder):
    """Whatever an agent left beside its patch is no part of it."""
    try:
        os.chmod(folder, 0o700)
    except OSError:
        pass  # there is none, or it cannot be changed


def empty(folder):
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            subprocess.run(['rm', '-rf', '--', entry.path], check=True)
        else:
            os.unlink(entry.path)


def write(name, text):
    """Never half a file."""
    draft = os.path.join(LOGS, '.' + name)
    with open(draft, 'w', encoding='utf-8') as file:
        file.write(text)
    os.replace(draft, os.path.join(LOGS, name))


def keep_output(said):
    write('output.txt', said)
    print(said)


if __name__ == '__main__':
    main()
