"""The submission, the hidden tests over it, and whose the files are afterwards.

Nothing of the submission is on the disk before all of it has been looked at: it is applied to an index of git first.
What it does to tests, to files that steer the runner, and to what git ignores is left out; the rest counts.
"""

import fnmatch
import os
import posixpath
import re
import resource
import subprocess
import sys
import tempfile

from processes import read_carefully
from trouble import Broken

PATCH_BYTES = 64 * 1024 * 1024
GIT_SECONDS = 120
GIT_MEMORY = 4 * 1024 * 1024 * 1024
GIT_FILE = 512 * 1024 * 1024
DELETED = '000000'
PLAIN = ('100644', '100755')
LINK = '120000'
# Of pytest, which is loaded after the working folder has become a place to look, and what it loads in its turn.
RUNNER_MODULES = (
    'pytest', '_pytest', 'py', 'pluggy', 'iniconfig', 'packaging', 'pygments', 'exceptiongroup', 'tomli', 'typing_extensions',
    'attr', 'attrs', 'importlib_metadata', 'zipp', 'colorama', 'sitecustomize', 'usercustomize')


def apply(repository, path, plan, hidden):
    """Answers what was left out."""
    patch = read_patch(path)
    if not patch.strip():
        return {'leftOut': []}
    git = Git(repository)
    before = git.text('write-tree').strip()
    git.run('apply', '--cached', '--binary', '--whitespace=nowarn', '-', given=patch)
    changes = git.changes(before)
    leave_out = leaves_out(git, changes, plan, hidden)
    kept = [change for change in changes if change[2] not in leave_out]
    for mode, content, changed in kept:
        refuse_unsafe(git, mode, content, changed)
    git.run('read-tree', before)
    lines = b''.join(f'{mode} {content}\t'.encode() + os.fsencode(changed) + b'\0' for mode, content, changed in kept)
    git.run('update-index', '-z', '--index-info', given=lines)
    after = git.text('write-tree').strip()
    git.end()
    update(repository, before, after)
    return {'leftOut': sorted(leave_out)[:200]}


def read_patch(path):
    try:
        return read_carefully(path, PATCH_BYTES)
    except FileNotFoundError:
        return b''
    except (OSError, Broken) as trouble:
        raise Broken('patch_does_not_apply', str(trouble)) from None


class Git:
    """On an index of its own, so that the one of the repository stays what it was."""

    def __init__(self, repository):
        self.repository = repository
        self.folder = tempfile.mkdtemp()
        self.env = {**git_env(), 'GIT_INDEX_FILE': os.path.join(self.folder, 'index')}
        self.run('read-tree', 'HEAD')

    def run(self, *words, given=b'', codes=(0,)):
        return run_git(self.repository, self.env, words, given, codes)

    def text(self, *words):
        return self.run(*words).decode()

    def changes(self, tree):
        """Mode, id and path of all that is different, renames taken apart."""
        fields = self.run('diff-index', '--cached', '--raw', '-z', '--no-renames', '--no-abbrev', tree).split(b'\0')
        found = []
        for about, path in zip(fields[0::2], fields[1::2]):
            _, mode, _, content, _ = about.decode().split(' ')
            found.append((mode, content, os.fsdecode(path)))
        return found

    def end(self):
        os.unlink(self.env['GIT_INDEX_FILE'])
        os.rmdir(self.folder)


def git_env():
    """Settings of the image and of its users do not count."""
    return {
        'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': '/nonexistent', 'LC_ALL': 'C',
        'GIT_CONFIG_NOSYSTEM': '1', 'GIT_CONFIG_COUNT': '2',
        'GIT_CONFIG_KEY_0': 'safe.directory', 'GIT_CONFIG_VALUE_0': '*',
        'GIT_CONFIG_KEY_1': 'core.hooksPath', 'GIT_CONFIG_VALUE_1': '/dev/null',
    }


def run_git(repository, env, words, given, codes=(0,)):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (GIT_MEMORY, GIT_MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (GIT_FILE, GIT_FILE))

    try:
        done = subprocess.run(
            ['git', '-C', repository, *words], env=env, input=given, capture_output=True, timeout=GIT_SECONDS,
            preexec_fn=limit,
        )
    except subprocess.TimeoutExpired:
        raise Broken('patch_does_not_apply', f'git {words[0]} took too long.') from None
    if done.returncode not in codes:
        raise Broken('patch_does_not_apply', f'git {words[0]}: {done.stderr.decode("utf-8", "replace")}')
    return done.stdout


def leaves_out(git, changes, plan, hidden):
    """Paths that do not count. Rules of what is ignored are those of before the submission."""
    paths = [path for _, _, path in changes]
    tests = {file['path'] for file in hidden['files']} | set(hidden['deleted']) if hidden else set()
    listed = git.run('ls-tree', '-r', '-z', '--name-only', 'HEAD').split(b'\0')
    there = {os.fsdecode(path) for path in listed}
    folders = {folder for path in there for folder in folders_above(path)}
    added = [path for path in paths if path not in there]
    asked = b''.join(b'./' + os.fsencode(path) + b'\0' for path in added)
    ignored = git.run('check-ignore', '--no-index', '-z', '--stdin', given=asked, codes=(0, 1)) if added else b''
    out = {os.fsdecode(path[2:]) for path in ignored.split(b'\0') if path}
    out |= {path for path in paths if path in tests or is_test(path, plan['tests'])}
    out |= {path for path in paths if is_named(path, plan['settings'])}
    out |= {path for path in added if is_built(git.repository, path, folders)}
    if plan['hidesModules']:
        out |= {path for path in added if hides_module(path, there)}
    return out | in_the_way(changes, there, out)


def in_the_way(changes, there, out):
    """New files that have the name of a folder that stays, or would be in a file that stays."""
    gone = {path for mode, _, path in changes if mode == DELETED and path not in out}
    stays = there - gone
    folders = {folder for path in stays for folder in folders_above(path)}
    return {
        path for mode, _, path in changes
        if mode != DELETED and path not in there and (path in folders or stays.intersection(folders_above(path)))
    }


def is_test(path, rules):
    """By the rules that split the change itself: what was to be found is never called so. Helpers of tests judge too."""
    *folders, name = path.split('/')
    return any(folder.lower() in rules['folders'] for folder in folders) or any(
        re.search(pattern, name) for pattern in rules['names']
    )


def is_named(path, patterns):
    """A pattern is a file name at any depth; with a slash behind it, a folder."""
    *folders, name = path.split('/')
    return any(
        any(fnmatch.fnmatchcase(folder, pattern[:-1]) for folder in folders)
        if pattern.endswith('/') else fnmatch.fnmatchcase(name, pattern)
        for pattern in patterns
    )


def is_built(repository, path, folders):
    """It would change what the image made for itself, such as a program that was installed."""
    for part in [*folders_above(path), path]:
        if part not in folders:
            return os.path.lexists(os.path.join(repository, part))
    return False


def hides_module(path, there):
    """Python looks into the working folder before it looks for its own modules. One that is there already hides them anyhow."""
    first = path.split('/')[0]
    name = first.split('.')[0] if '/' not in path else first
    if f'{name}.py' in there or f'{name}/__init__.py' in there:
        return False
    is_theirs = name in sys.stdlib_module_names or name in RUNNER_MODULES
    return is_theirs and ('/' in path or path.endswith(('.py', '.so', '.pyc')))


def refuse_unsafe(git, mode, content, path):
    if mode == DELETED or mode in PLAIN:
        return
    if mode != LINK:
        raise Broken('patch_does_not_apply', f'{path} is neither a file nor a link.')
    target = os.fsdecode(git.run('cat-file', 'blob', content))
    goal = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if target.startswith('/') or goal == '..' or goal.startswith('../'):
        raise Broken('patch_does_not_apply', f'{path} is a link that leads out of the repository.')


def update(repository, before, after):
    """The files of the repository become those of the new tree."""
    run_git(repository, git_env(), ('update-index', '-q', '--refresh'), b'', (0, 1))
    run_git(repository, git_env(), ('read-tree', '-m', '-u', before, after), b'')


def lay(repository, source, hidden):
    for path in (hidden or {}).get('deleted', []):
        remove(repository, path)
    for file in (hidden or {}).get('files', []):
        with open(os.path.join(source, file['path']), 'rb') as opened:
            content = opened.read()
        make_way(repository, file['path'])
        target = os.path.join(repository, file['path'])
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, 'wb') as opened:
            opened.write(content)
            os.fchmod(handle, 0o755 if file['executable'] else 0o644)


def folders_above(path):
    parts = path.split('/')
    return ['/'.join(parts[:length]) for length in range(1, len(parts))]


def remove(repository, path):
    """Nothing that a link leads to."""
    if any(os.path.islink(os.path.join(repository, folder)) for folder in folders_above(path)):
        return
    target = os.path.join(repository, path)
    if os.path.islink(target) or os.path.isfile(target):
        os.unlink(target)


def make_way(repository, path):
    """Its folders become real ones, and whatever has its name goes."""
    for folder in folders_above(path):
        place = os.path.join(repository, folder)
        if os.path.islink(place) or (os.path.lexists(place) and not os.path.isdir(place)):
            os.unlink(place)
        if not os.path.isdir(place):
            os.mkdir(place, 0o755)
    target = os.path.join(repository, path)
    if os.path.isdir(target) and not os.path.islink(target):
        subprocess.run(['rm', '-rf', '--', target], check=True)
    elif os.path.lexists(target):
        os.unlink(target)


def give(repository, plan, hidden):
    """
    All files to the tests' user, who may have to build them, except those that judge it: tests and what steers the
    runner stay root's, in folders where nobody else can put anything in their place.
    """
    uid, judging = plan['uid'], set()
    if hidden:
        judging |= {file['path'] for file in hidden['files']}
    tracked = run_git(repository, git_env(), ('ls-files', '-z'), b'').split(b'\0')
    for path in filter(None, map(os.fsdecode, tracked)):
        if is_named(path, plan['settings']) or (path.endswith(tuple(plan['tests']['extensions'])) and is_test(path, plan['tests'])):
            judging.add(path)
    closed = {''} | {folder for path in judging for folder in folders_above(path)}
    for top, folders, files in os.walk(repository):
        here = os.path.relpath(top, repository)
        here = '' if here == '.' else here
        if here == '' and '.git' in folders:
            folders.remove('.git')
        if here in closed:
            own(top, 0)
            os.chmod(top, 0o1777)
        else:
            own(top, uid)
        for name in files + [folder for folder in folders if os.path.islink(os.path.join(top, folder))]:
            path = f'{here}/{name}' if here else name
            own(os.path.join(top, name), 0 if path in judging else uid)
    for path in judging:
        target = os.path.join(repository, path)
        if os.path.isfile(target) and not os.path.islink(target):
            os.chmod(target, os.stat(target).st_mode & 0o755)


def own(path, uid):
    if os.lstat(path).st_uid != uid:
        os.lchown(path, uid, uid)
