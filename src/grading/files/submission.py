"""Applies the submission, copies the hidden tests over it, and sets the owners of all files.

The submission is applied to a git index first, and written to disk only after every change has been checked. Changes to
tests, to files that configure the runner, and to files that git ignores are left out; the rest counts.
"""

import fnmatch
import os
import posixpath
import re
import resource
import subprocess
import sys
import tempfile

from processes import BrokenRun, read_carefully

PATCH_BYTES = 64 * 1024 * 1024
GIT_SECONDS = 120
GIT_MEMORY_BYTES = 4 * 1024 * 1024 * 1024
GIT_FILE_BYTES = 512 * 1024 * 1024
# Modes in git's index.
DELETED = '000000'
REGULAR_FILES = ('100644', '100755')
LINK = '120000'
# Modules of pytest and of its dependencies. Python searches the working directory for them first.
RUNNER_MODULES = (
    'pytest', '_pytest', 'py', 'pluggy', 'iniconfig', 'packaging', 'pygments', 'exceptiongroup', 'tomli', 'typing_extensions',
    'attr', 'attrs', 'importlib_metadata', 'zipp', 'colorama', 'sitecustomize', 'usercustomize')


def apply(repository, path, plan, hidden):
    """Applies the patch to the repository. Returns the paths that were left out."""
    patch = read_patch(path)
    if not patch.strip():
        return {'leftOut': []}
    git = Git(repository)
    before = git.text('write-tree').strip()
    git.run('apply', '--cached', '--binary', '--whitespace=nowarn', '-', stdin=patch)
    changes = git.changes(before)
    left_out = list_left_out(git, changes, plan, hidden)
    counted = [change for change in changes if change[2] not in left_out]
    for mode, blob, changed in counted:
        refuse_unsafe(git, mode, blob, changed)
    git.run('read-tree', before)
    lines = b''.join(f'{mode} {blob}\t'.encode() + os.fsencode(changed) + b'\0' for mode, blob, changed in counted)
    git.run('update-index', '-z', '--index-info', stdin=lines)
    after = git.text('write-tree').strip()
    git.remove_index()
    check_out(repository, before, after)
    return {'leftOut': sorted(left_out)[:200]}


def read_patch(path):
    try:
        return read_carefully(path, PATCH_BYTES)
    except FileNotFoundError:
        return b''
    except (OSError, BrokenRun) as error:
        raise BrokenRun('patch_does_not_apply', str(error)) from None


class Git:
    """Runs git on a temporary index, so that the index of the repository does not change."""

    def __init__(self, repository):
        self.repository = repository
        self.folder = tempfile.mkdtemp()
        self.env = {**git_env(), 'GIT_INDEX_FILE': os.path.join(self.folder, 'index')}
        self.run('read-tree', 'HEAD')

    def run(self, *words, stdin=b'', accepted_codes=(0,)):
        return run_git(self.repository, self.env, words, stdin, accepted_codes)

    def text(self, *words):
        return self.run(*words).decode()

    def changes(self, tree):
        """Returns mode, blob id and path of every file that differs. A rename is a deletion and an addition."""
        fields = self.run('diff-index', '--cached', '--raw', '-z', '--no-renames', '--no-abbrev', tree).split(b'\0')
        found = []
        for header, path in zip(fields[0::2], fields[1::2]):
            _, mode, _, blob, _ = header.decode().split(' ')
            found.append((mode, blob, os.fsdecode(path)))
        return found

    def remove_index(self):
        os.unlink(self.env['GIT_INDEX_FILE'])
        os.rmdir(self.folder)


def git_env():
    """Returns an environment in which git ignores the settings of the image and of its users."""
    return {
        'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': '/nonexistent', 'LC_ALL': 'C',
        'GIT_CONFIG_NOSYSTEM': '1', 'GIT_CONFIG_COUNT': '2',
        'GIT_CONFIG_KEY_0': 'safe.directory', 'GIT_CONFIG_VALUE_0': '*',
        'GIT_CONFIG_KEY_1': 'core.hooksPath', 'GIT_CONFIG_VALUE_1': '/dev/null',
    }


def run_git(repository, env, words, stdin, accepted_codes=(0,)):
    def set_limits():
        resource.setrlimit(resource.RLIMIT_AS, (GIT_MEMORY_BYTES, GIT_MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_FSIZE, (GIT_FILE_BYTES, GIT_FILE_BYTES))

    try:
        done = subprocess.run(
            ['git', '-C', repository, *words], env=env, input=stdin, capture_output=True, timeout=GIT_SECONDS,
            preexec_fn=set_limits,
        )
    except subprocess.TimeoutExpired:
        raise BrokenRun('patch_does_not_apply', f'git {words[0]} took too long.') from None
    if done.returncode not in accepted_codes:
        raise BrokenRun('patch_does_not_apply', f'git {words[0]}: {done.stderr.decode("utf-8", "replace")}')
    return done.stdout


def list_left_out(git, changes, plan, hidden):
    """Returns the changed paths that do not count. Ignore rules are those of the base, not of the submission."""
    paths = [path for _, _, path in changes]
    tests = {file['path'] for file in hidden['files']} | set(hidden['deleted']) if hidden else set()
    listed = git.run('ls-tree', '-r', '-z', '--name-only', 'HEAD').split(b'\0')
    existing = {os.fsdecode(path) for path in listed}
    folders = {folder for path in existing for folder in folders_above(path)}
    added = [path for path in paths if path not in existing]
    added_lines = b''.join(b'./' + os.fsencode(path) + b'\0' for path in added)
    check_ignore = ('check-ignore', '--no-index', '-z', '--stdin')
    ignored = git.run(*check_ignore, stdin=added_lines, accepted_codes=(0, 1)) if added else b''
    left_out = {os.fsdecode(path[2:]) for path in ignored.split(b'\0') if path}
    left_out |= {path for path in paths if path in tests or is_test(path, plan['tests'])}
    left_out |= {path for path in paths if matches_any(path, plan['settings'])}
    left_out |= {path for path in added if is_build_output(git.repository, path, folders)}
    if plan['hidesModules']:
        left_out |= {path for path in added if hides_module(path, existing)}
    return left_out | list_conflicting(changes, existing, left_out)


def list_conflicting(changes, existing, left_out):
    """Returns new files that have the path of a remaining folder, or that would be inside a remaining file."""
    deleted = {path for mode, _, path in changes if mode == DELETED and path not in left_out}
    remaining = existing - deleted
    folders = {folder for path in remaining for folder in folders_above(path)}
    return {
        path for mode, _, path in changes
        if mode != DELETED and path not in existing and (path in folders or remaining.intersection(folders_above(path)))
    }


def is_test(path, rules):
    """Returns whether a path is a test or a helper of tests, by the rules that split the original change."""
    *folders, name = path.split('/')
    return any(folder.lower() in rules['folders'] for folder in folders) or any(
        re.search(pattern, name) for pattern in rules['names']
    )


def matches_any(path, patterns):
    """Returns whether a pattern matches the file name, or, if it ends with a slash, one of the folders."""
    *folders, name = path.split('/')
    return any(
        any(fnmatch.fnmatchcase(folder, pattern[:-1]) for folder in folders)
        if pattern.endswith('/') else fnmatch.fnmatchcase(name, pattern)
        for pattern in patterns
    )


def is_build_output(repository, path, folders):
    """Returns whether a new path would replace an untracked file of the image, such as an installed program."""
    for part in [*folders_above(path), path]:
        if part not in folders:
            return os.path.lexists(os.path.join(repository, part))
    return False


def hides_module(path, existing):
    """Returns whether a new file would shadow a module of Python or pytest that no existing file shadows already."""
    first = path.split('/')[0]
    name = first.split('.')[0] if '/' not in path else first
    if f'{name}.py' in existing or f'{name}/__init__.py' in existing:
        return False
    is_protected = name in sys.stdlib_module_names or name in RUNNER_MODULES
    return is_protected and ('/' in path or path.endswith(('.py', '.so', '.pyc')))


def refuse_unsafe(git, mode, blob, path):
    """Raises BrokenRun for a link that leads out of the repository, and for anything but files and links."""
    if mode == DELETED or mode in REGULAR_FILES:
        return
    if mode != LINK:
        raise BrokenRun('patch_does_not_apply', f'{path} is neither a file nor a link.')
    target = os.fsdecode(git.run('cat-file', 'blob', blob))
    resolved = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if target.startswith('/') or resolved == '..' or resolved.startswith('../'):
        raise BrokenRun('patch_does_not_apply', f'{path} is a link that leads out of the repository.')


def check_out(repository, before, after):
    """Writes the files that differ between two trees into the repository."""
    run_git(repository, git_env(), ('update-index', '-q', '--refresh'), b'', (0, 1))
    run_git(repository, git_env(), ('read-tree', '-m', '-u', before, after), b'')


def copy_hidden_tests(repository, source, hidden):
    for path in (hidden or {}).get('deleted', []):
        remove(repository, path)
    for file in (hidden or {}).get('files', []):
        with open(os.path.join(source, file['path']), 'rb') as opened:
            content = opened.read()
        clear_path(repository, file['path'])
        target = os.path.join(repository, file['path'])
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, 'wb') as opened:
            opened.write(content)
            os.fchmod(handle, 0o755 if file['executable'] else 0o644)


def folders_above(path):
    parts = path.split('/')
    return ['/'.join(parts[:length]) for length in range(1, len(parts))]


def remove(repository, path):
    """Removes a file or a link. Does not follow links."""
    if any(os.path.islink(os.path.join(repository, folder)) for folder in folders_above(path)):
        return
    target = os.path.join(repository, path)
    if os.path.islink(target) or os.path.isfile(target):
        os.unlink(target)


def clear_path(repository, path):
    """Creates the parent folders of a path without following links, and removes whatever has the path itself."""
    for folder in folders_above(path):
        parent = os.path.join(repository, folder)
        if os.path.islink(parent) or (os.path.lexists(parent) and not os.path.isdir(parent)):
            os.unlink(parent)
        if not os.path.isdir(parent):
            os.mkdir(parent, 0o755)
    target = os.path.join(repository, path)
    if os.path.isdir(target) and not os.path.islink(target):
        subprocess.run(['rm', '-rf', '--', target], check=True)
    elif os.path.lexists(target):
        os.unlink(target)


def set_owners(repository, plan, hidden):
    """
    Gives all files to the tests' user, who may have to build them, except tests and files that configure the runner.
    These stay with root, in sticky folders where the user cannot replace them.
    """
    uid, protected = plan['uid'], set()
    if hidden:
        protected |= {file['path'] for file in hidden['files']}
    tracked = run_git(repository, git_env(), ('ls-files', '-z'), b'').split(b'\0')
    for path in filter(None, map(os.fsdecode, tracked)):
        if matches_any(path, plan['settings']) or (path.endswith(tuple(plan['tests']['extensions'])) and is_test(path, plan['tests'])):
            protected.add(path)
    sticky = {''} | {folder for path in protected for folder in folders_above(path)}
    for top, folders, files in os.walk(repository):
        here = os.path.relpath(top, repository)
        here = '' if here == '.' else here
        if here == '' and '.git' in folders:
            folders.remove('.git')
        if here in sticky:
            set_owner(top, 0)
            os.chmod(top, 0o1777)
        else:
            set_owner(top, uid)
        for name in files + [folder for folder in folders if os.path.islink(os.path.join(top, folder))]:
            path = f'{here}/{name}' if here else name
            set_owner(os.path.join(top, name), 0 if path in protected else uid)
    for path in protected:
        target = os.path.join(repository, path)
        if os.path.isfile(target) and not os.path.islink(target):
            os.chmod(target, os.stat(target).st_mode & 0o755)


def set_owner(path, uid):
    if os.lstat(path).st_uid != uid:
        os.lchown(path, uid, uid)
