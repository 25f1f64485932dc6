import { expect, test } from 'vitest'
import type { EnvRecipe, TreeFacts } from '../stages/parts.ts'
import { recipeTrouble, renderDockerfile } from './dockerfile.ts'
import { recipe } from './recipes/recipe.ts'
import { ecosystems } from './recipes/recipes.ts'

const AT = new Date('2024-05-01T12:00:00Z')

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
  ['go', 'go', { 'go.mod': 'module example.org/kit\n', 'go.sum': '', 'tools/go.mod': '' }],
  ['rust', 'cargo', { 'Cargo.toml': '', 'Cargo.lock': '' }],
  ['maven', 'maven', { 'pom.xml': '', 'core/pom.xml': '' }],
  ['gradle', 'gradle', { 'build.gradle.kts': '', gradlew: '' }],
  ['cmake', 'ctest', { 'CMakeLists.txt': '' }],
  ['ruby', 'rspec', { Gemfile: '', 'Gemfile.lock': '' }],
  ['ruby-gem', 'rspec', { Gemfile: '', 'kit.gemspec': '' }],
  ['php', 'phpunit', { 'composer.json': '{}', 'composer.lock': '{}' }],
]

test.each(TREES)('%s: the Dockerfile, to the byte', async (name, runner, files) => {
  const made = ecosystems[runner]?.recipeOf(tree(files), runner)
  if (!made) throw new Error('There is no such recipe.')
  await expect(renderDockerfile(made, AT)).toMatchFileSnapshot(`testing/dockerfiles/${name}.Dockerfile`)
})

test.each<[string, Partial<EnvRecipe>]>([
  ['an image of a stranger', { base: 'evil/image:latest' }],
  ['an option in place of a package', { aptPackages: ['-o=Dpkg::Pre-Invoke::=x'] }],
  ['two lines in one', { setup: ['true\nUSER nobody'] }],
  ['a line that goes on', { build: ['true \\'] }],
  ['a comment, which would hide the lines after it', { build: ['true # x'] }],
  ['a here document', { build: ['cat <<EOF'] }],
  ['a variable with a line end', { env: { A: 'x\nRUN y' } }],
  ['a variable with a sign', { env: { 'A B': 'x' } }],
  ['a manifest from elsewhere', { manifests: ['../../etc/passwd'] }],
  ['no runner that we know', { runner: 'constructor' }],
])('%s is refused', (_, parts) => {
  const wrong = recipe({ runner: 'pytest', ...parts })
  expect(recipeTrouble(wrong)).toEqual(expect.any(String))
  expect(() => renderDockerfile(wrong, AT)).toThrow()
})
