import { findRunnerSetup } from '../../grading/languages/languages.ts'
import { OLDER_PYTHON_IMAGE } from '../../grading/languages/python-base.ts'
import { DEPS, type EnvRecipe, quoteWord } from '../../grading/languages/recipe.ts'
import { REPOSITORY_FOLDER, TESTS_UID } from '../../grading/suite.ts'

/** Packages of every image: git for the agent, Python for the verifier, libfaketime for clock tests. */
const REQUIRED_PACKAGES = ['ca-certificates', 'git', 'libfaketime', 'python3']

/** Base images that a model may choose. */
export const bases: readonly string[] = ['debian:trixie-slim', 'debian:bookworm-slim']
/** Base images of recipes. Rules may also choose an image with an older runtime, which not every machine can pull. */
const RECIPE_BASES: readonly string[] = [...bases, OLDER_PYTHON_IMAGE]

export const ARCHIVE = 'repo.tar.gz'
export const SUBMODULES_ARCHIVE = 'submodules.tar.gz'
export const MANIFESTS = 'manifests'

const PACKAGE = /^[a-z0-9][a-z0-9.+-]*$/
const VARIABLE = /^[A-Za-z_]\w*$/
/**
 * Matches a single line that a builder reads only as a command: no flags, here-documents or continuation, and no comment
 * that hides the rest.
 */
const LINE = /^(?!\s*--)(?!.*<<)(?!.*(?:^|\s)#)[^\r\n\0]*[^\\\r\n\0]$/s
const LINE_LENGTH_MAX = 8000
const VALUE = /^[^\r\n\0]*$/

/** Returns the first fault of a recipe, or undefined if it can be rendered. */
export function findRecipeFault({
  base,
  aptPackages,
  env,
  toolchain,
  manifests,
  setup,
  build,
  runner,
}: EnvRecipe): string | undefined {
  if (!RECIPE_BASES.includes(base))
    return `${JSON.stringify(base)} is not an allowed base image. Use one of: ${RECIPE_BASES.join(', ')}.`
  if (!findRunnerSetup(runner)) return `${JSON.stringify(runner)} is not a supported runner.`
  const badPackage = aptPackages.find((name) => !PACKAGE.test(name))
  if (badPackage !== undefined) return `${JSON.stringify(badPackage)} is not a valid package name.`
  const badName = Object.keys(env).find((name) => !VARIABLE.test(name))
  if (badName !== undefined) return `${JSON.stringify(badName)} is not a valid variable name.`
  if (!Object.values(env).every((value) => VALUE.test(value))) return 'The value of a variable has more than one line.'
  const badLine = [...toolchain, ...setup, ...build].find((line) => !LINE.test(line) || line.length > LINE_LENGTH_MAX)
  if (badLine !== undefined) return `${JSON.stringify(badLine.slice(0, 200))} is not a single shell command line.`
  const isInside = (path: string) => path.split('/').every((part) => !['', '.', '..'].includes(part))
  return manifests.every(isInside) ? undefined : 'A manifest path is outside the tree.'
}

/** A submodule: a folder that belongs to a commit of another repository. */
export type Gitlink = { path: string; commit: string }

/** The commit that an image contains. */
type ImageCommit = {
  committedAt: Date
  gitlinks: readonly Gitlink[]
  /** The build context has an archive with files of submodules. */
  hasSubmodules: boolean
}

/** Renders the Dockerfile of test runs and of the finished task. */
export function renderDockerfile(recipe: EnvRecipe, commit: ImageCommit): string {
  const { build, runner } = recipe
  const parts = [
    ...renderSharedParts(recipe).flat(),
    `COPY ${ARCHIVE} /tmp/${ARCHIVE}`,
    ...(commit.hasSubmodules ? [`COPY ${SUBMODULES_ARCHIVE} /tmp/${SUBMODULES_ARCHIVE}`] : []),
    renderRun(buildCommitLines(findRunnerSetup(runner)?.artefacts ?? [], commit)),
    ...(build.length === 0 ? [] : [renderRun([...build.map(groupLine), ...OPEN_PERMISSIONS, ...giveFolders(runner)])]),
  ]
  return `${parts.join('\n')}\n`
}

/**
 * Renders the beginnings of the Dockerfile that several candidates share: the tools, and the tools with the dependencies.
 * An image of each is built and kept, so that a layer is built once and outlives the candidate that needed it first.
 */
export function renderSharedDockerfiles(recipe: EnvRecipe): { tools: string; dependencies: string } {
  const [tools, dependencies] = renderSharedParts(recipe)
  return { tools: `${tools.join('\n')}\n`, dependencies: `${[...tools, ...dependencies].join('\n')}\n` }
}

function renderSharedParts(recipe: EnvRecipe): [tools: string[], dependencies: string[]] {
  const fault = findRecipeFault(recipe)
  if (fault) throw new Error(fault)
  const { base, aptPackages, env, toolchain, manifests, setup, runner } = recipe
  const packages = [...new Set([...REQUIRED_PACKAGES, ...aptPackages])].sort()
  const tools = [
    `FROM ${base}`,
    ...(findRunnerSetup(runner)?.buildArgs ?? []).map((name) => `ARG ${name}`),
    renderEnv({ LANG: 'C.UTF-8', ...env }),
    renderRun([
      CREATE_MANUAL_FOLDERS,
      'apt-get update',
      `DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ${packages.join(' ')}`,
      'rm -rf /var/lib/apt/lists/*',
    ]),
    ...(toolchain.length === 0 ? [] : [renderRun([...toolchain.map(groupLine), ...OPEN_PERMISSIONS])]),
    `WORKDIR ${REPOSITORY_FOLDER}`,
  ]
  const dependencies = [
    ...(manifests.length === 0 ? [] : [`COPY ${MANIFESTS}/ ./`]),
    ...(setup.length === 0 ? [] : [renderRun([...setup.map(groupLine), ...OPEN_PERMISSIONS, ...giveFolders(runner)])]),
  ]
  return [tools, dependencies]
}

/** Creates the manual page folders. Slim images lack them, and packages such as Java's fail to install without them. */
const CREATE_MANUAL_FOLDERS = 'mkdir -p /usr/share/man/man1 /usr/share/man/man7'

const renderRun = (lines: readonly string[]): string => `RUN ${lines.join(' \\\n && ')}`

/** Puts a line with shell operators into braces, so that an `||` in it does not affect the following lines. */
const groupLine = (line: string): string => (/[|;&]/.test(line) ? `{ ${line}; }` : line)

const renderEnv = (env: Record<string, string>): string =>
  `ENV ${Object.entries(env)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${name}="${value.replaceAll(/["\\$]/g, '\\$&')}"`)
    .join(' \\\n    ')}`

/**
 * Gives the unprivileged test user access. Only inaccessible files are changed, since every changed file is copied into
 * this layer.
 */
const OPEN_PERMISSIONS = [`mkdir -p ${DEPS}`, `find ${DEPS} ! -type l ! -perm -0666 -exec chmod a+rwX {} +`]

/**
 * Gives folders of installed or built files, such as `node_modules`, to the user of the tests, if the builder allows it.
 * Otherwise the grader would do so before each run, which copies every file from the image into the sandbox.
 */
function giveFolders(runner: string): string[] {
  const artefacts = findRunnerSetup(runner)?.artefacts ?? []
  const names = artefacts.filter((path) => path.endsWith('/')).map((path) => path.replaceAll('/', ''))
  if (names.length === 0) return []
  const condition = names.map((name) => `-name ${quoteWord(name)}`).join(' -o ')
  return [`{ find . -type d \\( ${condition} \\) -prune -exec chown -hR --from=0 ${TESTS_OWNER} {} + || true; }`]
}

const TESTS_OWNER = `${TESTS_UID}:${TESTS_UID}`

/**
 * Gives the files of the tree to the user of the tests, for the same reason. Its folders stay with root: npm 8, run by
 * root, executes the scripts of a package as the owner of its folder.
 */
const GIVE_TREE = `{ find . -path ./.git -prune -o -type f -uid 0 -exec chown ${TESTS_OWNER} {} + || true; }`

/** Git attributes that override those in the tree, which could change file contents at checkout. */
const ATTRIBUTES = '* -text -filter -ident -working-tree-encoding'

/**
 * Returns shell lines that create a single commit without history whose tree equals the base tree. The tree is unpacked
 * into a separate folder, because `setup` may have left files in the working directory.
 */
function buildCommitLines(
  artefacts: readonly string[],
  { committedAt, gitlinks, hasSubmodules }: ImageCommit,
): string[] {
  const date = `@${Math.floor(committedAt.getTime() / 1000)} +0000`
  const git = `git --git-dir=${REPOSITORY_FOLDER}/.git --work-tree=/tmp/base`
  return [
    'mkdir /tmp/base',
    `tar -xzf /tmp/${ARCHIVE} -C /tmp/base`,
    `rm /tmp/${ARCHIVE}`,
    'git init -q --template= -b main',
    'mkdir .git/info',
    `echo ${quoteWord(ATTRIBUTES)} > .git/info/attributes`,
    `printf '%s\\n' ${artefacts.map(quoteWord).join(' ') || "''"} > .git/info/exclude`,
    'git config core.logAllRefUpdates false',
    'git config gc.auto 0',
    `git config --system --add safe.directory '*'`,
    `(cd /tmp/base && ${git} add -A -f .)`,
    ...gitlinks.map(
      ({ path, commit }) => `git update-index --add --cacheinfo ${quoteWord(`160000,${commit},${path}`)}`,
    ),
    `GIT_AUTHOR_DATE='${date}' GIT_COMMITTER_DATE='${date}' git -c user.name=dev -c user.email=dev@localhost commit -q --allow-empty -m 'Initial commit'`,
    'git checkout-index -q -f -a',
    GIVE_TREE,
    'git update-index -q --refresh',
    'rm -rf /tmp/base',
    // git does not look into the folder of a submodule that is not a repository.
    ...(hasSubmodules ? [`tar -xzf /tmp/${SUBMODULES_ARCHIVE} -C .`, `rm /tmp/${SUBMODULES_ARCHIVE}`] : []),
  ]
}
