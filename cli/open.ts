import { spawn } from 'node:child_process'
import type { Command } from 'commander'
import type { Comparison } from '../src/comparisons/shapes/schema.ts'
import { call, ProblemReceived } from '../src/platform/http/client.ts'
import { WrongUse } from './failure.ts'
import { withExample } from './help.ts'
import { collectPages, openService, readAddress, readGlobals, requireId, type Service } from './service.ts'
import { print, printJson, type Shell } from './shell.ts'

const COMPARISONS_READ_MAX = 5000

/** Adds `assay open`, which prints the address of a page and opens it in a browser if standard output is a terminal. */
export function addOpenCommand(assay: Command, shell: Shell): void {
  withExample(
    assay
      .command('open')
      .description('Print the address of the workspace app or of one result, and open it if this is a terminal')
      .argument('[id]', 'Id of a comparison, trial or release; or a repository or benchmark as owner/name')
      .option('--no-browser', 'Only print the address')
      .action((id: string | undefined, flags: { browser: boolean }, command: Command) =>
        openPage(shell, command, id, flags.browser),
      ),
    'assay open',
    'assay open 0198c0de-0000-7000-8000-000000000000',
    'assay open lab/demo --no-browser',
  )
}

async function openPage(shell: Shell, command: Command, id: string | undefined, mayBrowse: boolean): Promise<void> {
  const { json } = readGlobals(command)
  const base = readAddress(shell, readGlobals(command)).replace(/\/$/, '')
  const path = id === undefined ? '/app/' : await resolvePath(await openService(shell, command), id)
  const url = `${base}${path}`
  if (json) return printJson(shell, { url })
  print(shell, url)
  if (mayBrowse && shell.output.isTTY) startBrowser(shell, url)
}

async function resolvePath(service: Service, id: string): Promise<string> {
  if (id.includes('/')) return resolveNamePath(service, id)
  requireId(id, 'assay comparisons list')
  const path =
    (await findTrialPath(service, id)) ??
    (await findComparisonPath(service, id)) ??
    (await findReleasePath(service, id))
  if (path === undefined) throw new WrongUse(`This workspace has no trial, comparison or release ${id}.`)
  return path
}

async function findTrialPath(service: Service, trialId: string): Promise<string | undefined> {
  const { readTrialById } = await import('../src/comparisons/schema.ts')
  const params = { org: service.org, trialId }
  const trial = await call(service, readTrialById, { params }).catch(ignoreMissing)
  return trial && `/app/trials/${trialId}`
}

/** Turns a 404 into undefined and rethrows other errors. */
function ignoreMissing(error: unknown): undefined {
  if (error instanceof ProblemReceived && error.problem.status === 404) return undefined
  throw error
}

async function findComparisonPath(service: Service, id: string): Promise<string | undefined> {
  const { listWorkspaceComparisons } = await import('../src/comparisons/schema.ts')
  const { items } = await collectPages<Comparison>(async (query) => {
    const { body } = await call(service, listWorkspaceComparisons, { params: { org: service.org }, query })
    return { items: body.evaluations, nextCursor: body.nextCursor }
  }, COMPARISONS_READ_MAX)
  const comparison = items.find((each) => each.id === id.toLowerCase())
  if (!comparison) return undefined
  const { scope } = comparison
  const scopePath =
    scope.kind === 'benchmark'
      ? `benchmarks/${scope.datasetOrg}/${scope.dataset}`
      : `repos/${scope.owner}/${scope.name}`
  return `/app/${scopePath}/comparisons/${comparison.id}`
}

async function listRepositories(service: Service) {
  const { listRepositories: endpoint } = await import('../src/repos/schema.ts')
  const { items } = await collectPages(async (query) => {
    const { body } = await call(service, endpoint, { params: { org: service.org }, query })
    return { items: body.repos, nextCursor: body.nextCursor }
  })
  return items
}

/** Finds the public page of a release. */
async function findReleasePath(service: Service, releaseId: string): Promise<string | undefined> {
  const { readRelease } = await import('../src/releases/schema.ts')
  for (const { owner, name } of await listRepositories(service)) {
    const params = { org: service.org, owner, name, releaseId }
    if (await call(service, readRelease, { params }).catch(ignoreMissing))
      return `/results/${owner}/${name}/releases/${releaseId}`
  }
  return undefined
}

async function resolveNamePath(service: Service, fullName: string): Promise<string> {
  const repositories = await listRepositories(service)
  const hasName = ({ owner, name }: { owner: string; name: string }): boolean =>
    `${owner}/${name}`.toLowerCase() === fullName.toLowerCase()
  const repository = repositories.find(hasName)
  if (repository) return `/app/repos/${repository.owner}/${repository.name}`
  const { listBenchmarks } = await import('../src/benchmarks/schema.ts')
  const { body } = await call(service, listBenchmarks, { params: { org: service.org } })
  const benchmark = body.benchmarks.find(({ datasetOrg, dataset }) => `${datasetOrg}/${dataset}` === fullName)
  if (benchmark) return `/app/benchmarks/${benchmark.datasetOrg}/${benchmark.dataset}`
  throw new WrongUse(`This workspace has no repository and no benchmark ${fullName}.`)
}

/** Programs that open an address in the browser, by platform. */
const OPENERS: Partial<Record<NodeJS.Platform, string>> = { darwin: 'open', linux: 'xdg-open' }

/** Starts the browser and does not wait for it. A missing browser is ignored, because the address has been printed. */
function startBrowser({ env }: Shell, url: string): void {
  const program = env.BROWSER || OPENERS[process.platform]
  if (program === undefined) return
  const child = spawn(program, [url], { stdio: 'ignore', detached: true })
  child.on('error', () => undefined)
  child.unref()
}
