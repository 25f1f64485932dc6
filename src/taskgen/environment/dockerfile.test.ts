import { spawnSync } from 'node:child_process'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findRunnerSetup } from '../../grading/languages/languages.ts'
import { completeRecipe, type EnvRecipe } from '../../grading/languages/recipe.ts'
import type { TreeFacts } from '../../grading/suite.ts'
import { findRecipeFault, renderDockerfile } from './dockerfile.ts'

const AT = new Date('2024-05-01T12:00:00Z')
const COMMIT = { committedAt: AT, gitlinks: [], hasSubmodules: false }

/** Paths with their texts, as they are in a tree. */
const tree = (files: Record<string, string>): TreeFacts => ({
  paths: new Set(Object.keys(files)),
  texts: new Map(Object.entries(files)),
})

const POETRY = `[tool.poetry]
name = "kit"
[tool.poetry.group.dev.dependencies]
python = "^3.9"
pytest-mock = "^3.1"
[build-system]
requires = ["poetry-core"]`

const PYPROJECT = `[project]
name = "kit"
dependencies = ["attrs>=20; python_version < '4'", "evil; $(touch /tmp/x)", "kit"]
[project.optional-dependencies]
test = ["hypothesis~=6.0"]
docs = ["sphinx"]
[dependency-groups]
dev = [{ include-group = "tests" }, "ruff"]
tests = ["pytest-cov"]
`

const UV_LOCK = `version = 1
[[package]]
name = "kit"
source = { editable = "." }
[[package]]
name = "attrs"
version = "25.3.0"
source = { registry = "https://pypi.org/simple" }
[[package]]
name = "numpy"
version = "1.26.4"
source = { registry = "https://pypi.org/simple" }
[[package]]
name = "numpy"
version = "2.2.0"
source = { registry = "https://pypi.org/simple" }
[[package]]
name = "evil; touch /tmp/x"
version = "1"
`

const TREES: [string, string, Record<string, string>][] = [
  ['python', 'pytest', { 'pyproject.toml': PYPROJECT, 'kit/a.py': '' }],
  [
    'python-requirements',
    'unittest',
    {
      'requirements.txt': 'attrs\n',
      'requirements-dev.txt': '-e .[dev]\n-r requirements.txt\n',
      'setup.py': "setup(extras_require={'dev': ['x'], 'docs': ['y']})",
      'fast.pyx': '',
    },
  ],
  ['python-poetry', 'pytest', { 'pyproject.toml': POETRY }],
  ['python-uv-lock', 'pytest', { 'pyproject.toml': PYPROJECT, 'uv.lock': UV_LOCK }],
  ['node-npm', 'jest', { 'package.json': '{"name":"kit"}', 'package-lock.json': '{}' }],
  ['node-no-lock', 'mocha', { 'package.json': '{"name":"kit"}' }],
  [
    'node-pnpm',
    'vitest',
    {
      'package.json': '{"packageManager":"pnpm@9.12.0"}',
      'pnpm-lock.yaml': '',
      'pnpm-workspace.yaml': '',
      'packages/a/package.json': '{}',
      'packages/a/node_modules/b/package.json': '{}',
    },
  ],
  [
    'node-yarn',
    'vitest',
    { 'package.json': '{"packageManager":"yarn@4.1.0; evil"}', 'yarn.lock': '', '.yarnrc.yml': '' },
  ],
  ['node-newer', 'vitest', { 'package.json': '{"engines":{"node":">=22.12"}}', 'yarn.lock': '' }],
  ['go', 'go', { 'go.mod': 'module example.org/kit\n', 'go.sum': '', 'tools/go.mod': '' }],
  ['rust', 'cargo', { 'Cargo.toml': '', 'Cargo.lock': '' }],
  ['maven', 'maven', { 'pom.xml': '', 'core/pom.xml': '' }],
  ['gradle', 'gradle', { 'build.gradle.kts': '', gradlew: '' }],
  ['cmake', 'ctest', { 'CMakeLists.txt': '' }],
  ['ruby', 'rspec', { Gemfile: '', 'Gemfile.lock': '' }],
  ['ruby-gem', 'rspec', { Gemfile: '', 'kit.gemspec': '' }],
  ['php', 'phpunit', { 'composer.json': '{}', 'composer.lock': '{}' }],
]

test.each(TREES)('renders the Dockerfile of %s exactly', async (name, runner, files) => {
  const made = findRunnerSetup(runner)?.buildRecipe(tree(files))
  if (!made) throw new Error('There is no such recipe.')
  await expect(renderDockerfile(made, COMMIT)).toMatchFileSnapshot(
    `../../../test/support/taskgen/dockerfiles/${name}.Dockerfile`,
  )
})

test.each([
  ['{"extra":{"branch-alias":{"dev-master":"5.x-dev"}}}', '5.x-dev'],
  ['{"extra":{"branch-alias":{"dev-main": "7.0-dev"}}}', '7.0-dev'],
  ['{"extra":{"branch-alias":{"dev-main":"1; evil-dev"}}}', undefined],
  ['{}', undefined],
])('Composer knows the version of a project that its own tools require: %s', (text, version) => {
  const { setup } = recipeAt('phpunit', '2025-08-19', { 'composer.json': text })
  expect(/^COMPOSER_ROOT_VERSION=(\S+) composer install/.exec(setup[0] ?? '')?.[1]).toBe(version)
})

const setupOf = (runner: string, files: Record<string, string>): string =>
  findRunnerSetup(runner)?.buildRecipe(tree(files)).setup.join('\n') ?? ''

/** The same tree, as it was committed on a day. */
const recipeAt = (runner: string, day: string, files: Record<string, string>): EnvRecipe => {
  const found = findRunnerSetup(runner)?.buildRecipe({ ...tree(files), committedAt: new Date(day) })
  if (!found) throw new Error(`There is no recipe for ${runner}.`)
  return found
}

test('packages that are not locked are installed as of the month of the commit', () => {
  const python = recipeAt('pytest', '2025-08-19', { 'pyproject.toml': PYPROJECT })
  expect([...python.setup, ...python.build].filter((line) => line.includes('uv pip install'))).toHaveLength(3)
  for (const line of [...python.setup, ...python.build])
    if (line.includes('uv pip install')) expect(line).toContain('--exclude-newer 2025-09-01')
  const node = recipeAt('mocha', '2025-12-31T23:59:59Z', { 'package.json': '{}' })
  expect(node.setup.at(-1)).toBe('npm install --ignore-scripts --no-package-lock --before=2026-01-01')
  const locked = recipeAt('mocha', '2025-12-31', { 'package.json': '{}', 'package-lock.json': '{}' })
  expect(locked.setup.at(-1)).toBe('npm ci --ignore-scripts || npm install --ignore-scripts')
})

test.each([
  ['psycopg2>=2.9', true],
  ['mysqlclient', true],
  ['psycopg[c]==3.2', true],
  ['psycopg2-binary', false],
  ['psycopg[binary]', false],
])('%s needs a compiler: %s', (requirement, isNeeded) => {
  for (const files of [
    { 'requirements.txt': `${requirement}\n` },
    { 'pyproject.toml': `[project]\nname = "a"\ndependencies = ["${requirement}"]\n` },
  ])
    expect(recipeAt('pytest', '2025-08-19', files).aptPackages.includes('build-essential')).toBe(isNeeded)
})

test('packages are never older than the Python of the image, which they would not support', () => {
  const { setup } = recipeAt('pytest', '2019-02-03', {})
  expect(setup.at(-1)).toContain('--exclude-newer 2023-04-01')
})

test.each<[string, Record<string, string>]>([
  ['PDM', { 'pyproject.toml': '[tool.pdm.dev-dependencies]\ntest = ["idna>=3", "-e ."]\ndocs = ["sphinx"]\n' }],
  ['uv', { 'pyproject.toml': '[tool.uv]\ndev-dependencies = ["idna>=3"]\n' }],
  [
    'Hatch',
    {
      'pyproject.toml':
        '[tool.hatch.envs.test]\ndependencies = ["idna>=3"]\n[tool.hatch.envs.docs]\ndependencies = ["sphinx"]\n',
    },
  ],
  [
    'tox',
    {
      'tox.ini':
        '[tox]\n[testenv]\ndeps =\n    -r requirements.txt\n    py: idna>=3\ncommands = pytest\n[testenv:docs]\ndeps = sphinx\n',
    },
  ],
  [
    'nox',
    {
      'noxfile.py':
        '@nox.session\ndef tests(session):\n    session.install("idna>=3", "-e", ".")\n\n@nox.session\ndef docs(session):\n    session.install("sphinx")\n',
    },
  ],
])('installs what the tests need according to %s', (_, files) => {
  const setup = setupOf('pytest', files)
  expect(setup).toContain("'idna>=3'")
  expect(setup).not.toMatch(/sphinx|requirements\.txt/)
})

const UV_INSTALL = 'SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt /opt/deps/tools/bin/uv pip install --no-cache'

const packageJson = (dependencies: Record<string, string>) => ({ 'package.json': JSON.stringify({ dependencies }) })

test.each<[string, Record<string, string>, Record<string, string>, string | undefined]>([
  [
    'mocha',
    packageJson({ kept: '^1', newer: '^1', gone: '^1' }),
    packageJson({ kept: '^1', newer: '^2', fresh: '~3.1', 'evil; x': '1', git: 'https://example.org/x.git' }),
    'npm install --ignore-scripts --no-save --no-package-lock newer@^2 fresh@~3.1',
  ],
  ['mocha', packageJson({ kept: '^1' }), packageJson({ kept: '^1' }), undefined],
  [
    'vitest',
    { ...packageJson({}), 'pnpm-lock.yaml': '' },
    { ...packageJson({ fresh: '^1' }), 'pnpm-lock.yaml': '' },
    'pnpm add --ignore-scripts --ignore-workspace-root-check fresh@^1',
  ],
  [
    'pytest',
    { 'requirements.txt': 'attrs\n' },
    { 'requirements.txt': 'attrs\nidna>=3 # new\n-r other.txt\n' },
    `set -- idna>=3; ${UV_INSTALL} "$@" || { [ $? -eq 1 ] && for each in "$@"; do ${UV_INSTALL} "$each" || [ $? -eq 1 ] || exit 1; done; }`,
  ],
])('installs what the landed manifests add: %s, %j, %j', (runner, before, after, line) => {
  const made = findRunnerSetup(runner)?.buildRecipe(tree(before), tree(after))
  const same = findRunnerSetup(runner)?.buildRecipe(tree(before), tree(before))
  const added = [...(made?.setup ?? []), ...(made?.build ?? [])].filter(
    (each) => ![...(same?.setup ?? []), ...(same?.build ?? [])].includes(each),
  )
  expect(added.map((each) => each.replaceAll("'", '')).join()).toBe(line?.replaceAll("'", '') ?? '')
})

test.each([
  ['all that can be built or found', 'broken) exit 1', 0, ['attrs', 'idna']],
  ['nothing if the network fails', '*) exit 2', 1, []],
])('of requirements that the landed manifests add, installs %s', async (_, failing, code, expected) => {
  const folder = await mkdtemp(join(tmpdir(), 'assay-uv-'))
  try {
    // Installs a package by creating a file. Fails for all packages if it fails for one.
    const uv = `#!/bin/sh\nshift 3\nfor each; do case "$each" in ${failing} ;; esac; done\nfor each; do : > "${folder}/installed-$each"; done\n`
    await writeFile(join(folder, 'uv'), uv, { mode: 0o755 })
    const landed = tree({ 'requirements.txt': 'attrs\nbroken\nidna\n' })
    const recipe = findRunnerSetup('pytest')?.buildRecipe(tree({ 'requirements.txt': '' }), landed)
    const line = recipe?.build.at(-1)?.replaceAll('/opt/deps/tools/bin/uv', join(folder, 'uv')) ?? ''
    const { status } = spawnSync('sh', ['-c', line])
    expect(status).toBe(code)
    const installed = (await readdir(folder)).filter((name) => name.startsWith('installed-'))
    expect(installed.sort()).toEqual(expected.map((name) => `installed-${name}`))
  } finally {
    await rm(folder, { recursive: true })
  }
})

test.each<[string, Record<string, string>]>([
  ['uv.lock', { 'uv.lock': UV_LOCK }],
  ['poetry.lock', { 'poetry.lock': '[[package]]\nname = "attrs"\nversion = "25.3.0"\n' }],
  ['pdm.lock', { 'pdm.lock': '[[package]]\nname = "attrs"\nversion = "25.3.0"\n' }],
  [
    'Pipfile.lock',
    {
      Pipfile: '[packages]\nattrs = "*"\n[dev-packages]\nown = { path = "." }\n',
      'Pipfile.lock': '{"default":{"attrs":{"version":"==25.3.0"}},"develop":{"own":{"path":"."}}}',
    },
  ],
])('the versions of %s constrain the installation', (_, files) => {
  const { setup } = recipeAt('pytest', '2025-08-19', files)
  expect(setup).toContain(`printf '%s\\n' attrs==25.3.0 >> /opt/deps/constraints.txt`)
  expect(setup.at(-1)).toContain('-c /opt/deps/constraints.txt')
  expect(setup.join('\n')).not.toContain('own')
})

test('a lock file that cannot be parsed does not constrain anything', () => {
  const { setup } = recipeAt('pytest', '2025-08-19', { 'uv.lock': '[[package', 'Pipfile.lock': '{', Pipfile: '[' })
  expect(setup.join('\n')).not.toContain('constraints')
})

const CI = '.github/workflows/tests.yaml'

test.each<[string, string, Record<string, string>]>([
  ['trixie', '2025-08-19', {}],
  ['bookworm', '2024-03-01', {}],
  ['bookworm', '2020-03-01', {}],
  ['bookworm', '2025-08-19', { [CI]: "        python-version: ['3.9', '3.10', '3.11', '3.12']\n" }],
  ['trixie', '2025-08-19', { [CI]: "          - {name: '3.13', python: '3.13'}\n          - {python: '3.11'}\n" }],
])('selects the Python of %s for a commit of %s with %j', (suite, day, files) => {
  expect(recipeAt('pytest', day, files).base).toBe(`debian:${suite}-slim`)
})

test.each<[string, string, string | undefined]>([
  ['2022-06-01', '>= 14', '16'],
  ['2023-06-01', '>= 18', '18'],
  ['2024-06-01', '>= 18', undefined],
  ['2025-06-01', '>= 18', '22'],
  ['2025-12-01', '>= 18', '24'],
  ['2025-06-01', '>= 24', '24'],
])('selects the newest Node with long-term support on %s that %s allows', (day, range, line) => {
  const setup = recipeAt('jest', day, { 'package.json': JSON.stringify({ engines: { node: range } }) }).setup.join()
  expect(/process\.arch\)@(\d+)/.exec(setup)?.[1]).toBe(line)
})

const engines = (node: unknown) => ({ 'package.json': JSON.stringify({ engines: { node } }) })

test.each<[string, Record<string, string>, string | undefined]>([
  ['the range of engines, by its lowest line with a future', engines('>=22.5 <25'), '22'],
  ['a range above what there is', engines('>=99'), undefined],
  ['either of two lines, of which the base has one', engines('^18.18 || ^20.9'), undefined],
  ['an old line alone', engines('16.x'), '16'],
  ['a newer one of the same line', engines('^20.99.0'), '20'],
  ['no range', engines('latest; evil'), undefined],
  ['no text', engines(24), undefined],
  ['a file that names a version', { ...engines('>=18'), '.nvmrc': 'v24.1.0\n' }, '24'],
  ['a file that names a line by its name', { ...engines('*'), '.nvmrc': 'lts/Jod\n' }, '22'],
  ['a file of other programs', { ...engines('*'), '.node-version': '18' }, '18'],
  ['a file that names none', { ...engines('>=24'), '.nvmrc': 'lts/*' }, '24'],
  ['a line that the base has', { ...engines('>=22'), '.nvmrc': '20.1' }, undefined],
  ['a file with a line of shell', { ...engines('*'), '.nvmrc': '$(touch /tmp/x)' }, undefined],
])('selects the Node version of a tree: %s', (_, files, line) => {
  const [, npm, found] =
    /npm@(\d+) node-linux-\$\(node -p process\.arch\)@(\d+) && hash -r/.exec(setupOf('jest', files)) ?? []
  expect(found).toBe(line)
  expect(npm !== undefined).toBe(line !== undefined)
})

const TRIXIE = 'debian:trixie-slim'
const BOOKWORM = 'debian:bookworm-slim'
const project = (range: string) => ({ 'pyproject.toml': `[project]\nname = "kit"\nrequires-python = "${range}"\n` })
const poetry = (range: string) => ({
  'pyproject.toml': `[tool.poetry]\nname = "kit"\n[tool.poetry.dependencies]\npython = "${range}"\n`,
})

test.each<[string, Record<string, string>]>([
  [TRIXIE, {}],
  [TRIXIE, project('>=3.8')],
  [TRIXIE, project('>=3.8,<4,!=3.9.*')],
  [TRIXIE, project('<3.13.1, >=3')],
  [TRIXIE, project('>=3.99')],
  [TRIXIE, project('what they like')],
  [TRIXIE, poetry('^3.9')],
  [BOOKWORM, project('>=3.8,<3.13')],
  [BOOKWORM, project('>=3.8, <=3.12')],
  [BOOKWORM, project('==3.11.*')],
  [BOOKWORM, project('~=3.11.2')],
  [BOOKWORM, project('>=3.10,!=3.13.*')],
  [BOOKWORM, poetry('>=3.8,<3.12')],
  [BOOKWORM, poetry('~3.11')],
  [BOOKWORM, { 'setup.py': "setup(python_requires='>=3.7, <3.12')" }],
  [BOOKWORM, { 'setup.cfg': '[options]\npython_requires = >=3.7,<3.12\n' }],
  [BOOKWORM, { ...project('>=3.8'), '.python-version': '3.11.4\n' }],
  [TRIXIE, { ...project('>=3.8'), '.python-version': '3.12\n' }],
])('base image %s has a Python that satisfies %j', (base, files) => {
  expect(findRunnerSetup('pytest')?.buildRecipe(tree(files)).base).toBe(base)
})

test.each<[string, string, Record<string, string>]>([
  ['a commit from before Python 3.11', '2020-08-31', {}],
  ['a range that no base image has', '2025-08-19', project('>=3.8,<3.11')],
  ['a named version', '2025-08-19', { '.python-version': '3.9.18\n' }],
])('%s has a second recipe, with Python 3.9 from its image', (_, day, files) => {
  const dated = { ...tree({ ...files, 'a.c': '' }), committedAt: new Date(day) }
  const older = findRunnerSetup('pytest')?.buildOlderRecipe?.(dated)
  expect(older).toMatchObject({ base: 'python:3.9-slim-bookworm', aptPackages: ['python3-venv', 'build-essential'] })
  expect(older && findRecipeFault(older)).toBeUndefined()
  // The first setuptools with which uv can install the package of the tree in editable mode is of August 2022.
  expect(/--exclude-newer (\S+)/.exec(older?.setup.join() ?? '')?.[1]).toSatisfy((each: string) => each >= '2022-09-01')
})

test.each<[string, string, Record<string, string>]>([
  ['a commit that the Python of a base image fits', '2023-04-01', {}],
  ['a range without Python 3.9', '2020-08-31', project('>=3.10')],
])('%s has no second recipe', (_, day, files) => {
  const dated = { ...tree(files), committedAt: new Date(day) }
  expect(findRunnerSetup('pytest')?.buildOlderRecipe?.(dated)).toBeUndefined()
})

test.each<[string, Partial<EnvRecipe>]>([
  ['an image of a stranger', { base: 'evil/image:latest' }],
  ['an option in place of a package', { aptPackages: ['-o=Dpkg::Pre-Invoke::=x'] }],
  ['two lines in one', { setup: ['true\nUSER nobody'] }],
  ['a line that goes on', { build: ['true \\'] }],
  ['a comment, which would hide the lines after it', { build: ['true # x'] }],
  ['a here document', { build: ['cat <<EOF'] }],
  ['a setting of the builder', { setup: ['--mount=type=cache,target=/x make'] }],
  ['a here document behind a separator', { build: ['true \u2028; cat <<EOF'] }],
  ['a comment behind a separator', { build: ['true \u2028; true # x'] }],
  ['a variable with a line end', { env: { A: 'x\nRUN y' } }],
  ['a variable with a sign', { env: { 'A B': 'x' } }],
  ['a manifest from elsewhere', { manifests: ['../../etc/passwd'] }],
  ['no runner that we know', { runner: 'constructor' }],
])('%s is refused', (_, parts) => {
  const wrong = completeRecipe({ runner: 'pytest', ...parts })
  expect(findRecipeFault(wrong)).toEqual(expect.any(String))
  expect(() => renderDockerfile(wrong, COMMIT)).toThrow()
})
