import { z } from 'zod'
import type { TreeFacts } from '../../../grading/suite.ts'
import { installNode } from './node-version.ts'
import { DEPS, named, present, type RecipeOf, recipe, word } from './recipe.ts'

const Package = z.object({
  name: z.string().optional().catch(undefined),
  packageManager: z.string().optional().catch(undefined),
  engines: z.object({ node: z.string() }).optional().catch(undefined),
  workspaces: z.unknown().optional(),
})

export function packageOf({ texts }: TreeFacts, path = 'package.json'): z.infer<typeof Package> {
  try {
    return Package.parse(JSON.parse(texts.get(path) ?? '{}'))
  } catch {
    return {}
  }
}

type Installer = {
  program: string[]
  install: string
  /** Programs of dependencies that are made on this machine. The repository's own scripts are not among them. */
  rebuild: string
  lock: string[]
}

const REBUILD = 'npm rebuild --ignore-scripts=false'

/** Install scripts run later, when all files are there. */
const NPM: Installer = {
  ...{ program: [], install: 'npm ci --ignore-scripts', rebuild: REBUILD, lock: ['package-lock.json'] },
}
const SHRINKWRAP: Installer = { ...NPM, lock: ['npm-shrinkwrap.json'] }
const NO_LOCK: Installer = { ...NPM, install: 'npm install --ignore-scripts --no-package-lock', lock: [] }

/** Programs other than npm come from the registry, once, and are in the image: nothing is fetched when tests run. */
function installerOf(tree: TreeFacts): Installer {
  const said = /^(pnpm|yarn)@(\d+\.\d+\.\d+)\b/.exec(packageOf(tree).packageManager ?? '')
  const version = (manager: string): string | undefined => (said?.[1] === manager ? said[2] : undefined)
  if (tree.paths.has('pnpm-lock.yaml')) return pnpm(version('pnpm') ?? '9')
  if (tree.paths.has('yarn.lock')) return yarn(version('yarn') ?? (tree.paths.has('.yarnrc.yml') ? '4' : '1'))
  if (tree.paths.has('package-lock.json')) return NPM
  return tree.paths.has('npm-shrinkwrap.json') ? SHRINKWRAP : NO_LOCK
}

const pnpm = (version: string): Installer => ({
  program: [`pnpm@${version}`],
  install: 'pnpm install --frozen-lockfile --ignore-scripts',
  rebuild: 'pnpm rebuild',
  lock: ['pnpm-lock.yaml', 'pnpm-workspace.yaml'],
})

/** From its second version on it is another program. */
const yarn = (version: string): Installer =>
  /^1\b/.test(version)
    ? {
        program: [`yarn@${version}`],
        install: 'yarn install --frozen-lockfile --ignore-scripts',
        rebuild: REBUILD,
        lock: ['yarn.lock'],
      }
    : {
        program: [`@yarnpkg/cli-dist@${version}`],
        install: 'yarn install --immutable --mode=skip-build',
        rebuild: 'yarn rebuild',
        lock: ['yarn.lock', '.yarnrc.yml'],
      }

export const node: RecipeOf = (tree, runner) => {
  const { program, install, rebuild, lock } = installerOf(tree)
  const { workspaces, engines } = packageOf(tree)
  const isMany = workspaces !== undefined || tree.paths.has('pnpm-workspace.yaml')
  const packages = isMany ? named(tree, /^package\.json$/) : present(tree, 'package.json')
  return recipe({
    runner,
    aptPackages: ['nodejs', 'npm'],
    env: {
      ...{ npm_config_cache: `${DEPS}/npm`, npm_config_update_notifier: 'false', npm_config_fund: 'false' },
      ...{ npm_config_audit: 'false', YARN_NODE_LINKER: 'node-modules', YARN_ENABLE_GLOBAL_CACHE: 'false' },
    },
    manifests: [...packages, ...present(tree, ...lock, '.npmrc')],
    setup: [
      ...installNode(tree, engines?.node),
      ...(packages.length === 0 ? [] : [...program.map((name) => `npm install -g ${word(name)}`), install]),
    ],
    build: packages.length === 0 ? [] : [rebuild],
  })
}
