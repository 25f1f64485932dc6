import { z } from 'zod'
import { call, callWithProgress } from '../../src/platform/http/client.ts'
import { loadContract as loadBatchContract } from '../batch.ts'
import { formatPreview } from '../batches-create.ts'
import { parseRepositoryName } from '../repository.ts'
import { collectPages, type Service } from '../service.ts'
import { formatCount } from '../table.ts'
import { defineTool, type McpTool } from './tool.ts'

export const repositoryName = z.string().max(201).describe('Repository as owner/name')

export const candidateCounts = {
  easy: z.number().int().min(0).max(300).default(0).describe('Candidates with one small change'),
  medium: z.number().int().min(0).max(300).default(0).describe('Candidates of medium size'),
  hard: z.number().int().min(0).max(300).default(0).describe('Candidates with many files or lines'),
}

const LISTED_MAX = 20

export const repositoryTools: McpTool[] = [
  defineTool({
    name: 'overview',
    title: 'Overview of the workspace',
    description: 'List the repositories, benchmarks and newest comparisons of the workspace. Start here.',
    effect: 'reads',
    input: z.object({}),
    run: async ({ openService }) => {
      const service = await openService()
      const data = await readOverview(service)
      const { repositories, benchmarks, comparisons } = data
      const counts = [
        formatCount(repositories.length, 'repository').replace(/ys$/, 'ies'),
        formatCount(benchmarks.length, 'benchmark'),
        formatCount(comparisons.length, 'recent comparison'),
      ]
      return {
        message: `Workspace ${service.org}: ${counts.join(', ')}.`,
        lines: [
          ...repositories.map(({ repository, visibility }) => `repository ${repository} (${visibility})`),
          ...benchmarks.map(({ benchmark, tasks }) => `benchmark ${benchmark} (${formatCount(tasks, 'task')})`),
          ...comparisons.map(({ comparison, scope, state }) => `comparison ${comparison} of ${scope}: ${state}`),
        ],
        data: { workspace: service.org, ...data },
      }
    },
  }),
  defineTool({
    name: 'connect_repository',
    title: 'Connect a repository',
    description: 'Connect a GitHub repository, or with gitUrl a plain git repository. Repeating it has no effect.',
    effect: 'changes',
    input: z.object({
      repository: repositoryName,
      gitUrl: z
        .string()
        .max(2000)
        .optional()
        .describe('Plain git: an https or ssh URL, or a path that the operator allows. Omit for GitHub'),
      isPublic: z.boolean().optional().describe('Plain git: the repository is public'),
      credentialId: z.uuid().optional().describe('Code-host credential (default: the newest)'),
    }),
    run: async ({ openService }, { repository, gitUrl, isPublic, credentialId }) => {
      const params = parseRepositoryName(repository)
      const service = await openService()
      const { connectRepository } = await import('../../src/repos/schema.ts')
      const { body, status } = await call(service, connectRepository, {
        params: { org: service.org, ...params },
        body: {
          source: gitUrl === undefined ? { kind: 'github' } : { kind: 'git', url: gitUrl },
          credentialId,
          visibility: isPublic ? 'public' : undefined,
        },
      })
      const result = status === 201 ? 'is connected' : 'was connected already'
      return {
        message: `${body.fullName} ${result} (${body.visibility}). Next: scan_repository, or import_tasks.`,
        data: { repository: body.fullName, visibility: body.visibility, source: body.source.kind },
      }
    },
  }),
  defineTool({
    name: 'scan_repository',
    title: 'Scan pull requests',
    description:
      'Count the merged pull requests that could become tasks, by difficulty, with the reasons for the rest and the maximum cost of the requested number. Executes nothing and costs nothing.',
    effect: 'reads',
    input: z.object({ repository: repositoryName, ...candidateCounts }),
    run: async ({ openService, progress }, { repository, ...counts }) => {
      const params = parseRepositoryName(repository)
      const service = await openService()
      const { previewBatch } = await loadBatchContract()
      const hasCounts = counts.easy + counts.medium + counts.hard > 0
      const preview = await callWithProgress(
        service,
        previewBatch,
        { params: { org: service.org, ...params }, body: { candidateCounts: hasCounts ? counts : undefined } },
        ({ pullRequests }) => progress(`${pullRequests} pull requests`),
      )
      const { pullRequests, buckets, rejections, cost } = preview
      return {
        message: `${formatCount(pullRequests, 'merged pull request')} scanned. Next: create_batch, or import_tasks.`,
        lines: [...formatPreview(preview), ...preview.warnings],
        data: { pullRequests, buckets, rejections: rejections.map(({ reason, count }) => ({ reason, count })), cost },
      }
    },
  }),
  defineTool({
    name: 'add_benchmark',
    title: 'Add a benchmark',
    description: 'Download a dataset of tasks, check every task and add it. Adds nothing if a task fails the check.',
    effect: 'changes',
    input: z.object({
      reference: z.string().max(300).describe('org/name, optionally with @ and a tag, a revision or a sha256: digest'),
    }),
    run: async ({ openService, progress }, { reference }) => {
      const service = await openService()
      const { addBenchmark } = await import('../../src/benchmarks/schema.ts')
      const request = { params: { org: service.org }, body: { reference } }
      const added = await callWithProgress(service, addBenchmark, request, ({ done, total }) =>
        progress(`${done} of ${total} tasks`),
      )
      const benchmark = `${added.datasetOrg}/${added.dataset}`
      const warnings = added.check.warnings.length
      return {
        message: `${benchmark} has ${formatCount(added.tasks, 'task')}, all checked; ${formatCount(warnings, 'warning')}. Next: compare.`,
        data: { benchmark, tasks: added.tasks, digest: added.digest, warnings },
      }
    },
  }),
]

async function readOverview(service: Service) {
  const params = { org: service.org }
  const [repositoryContract, benchmarkContract, { listWorkspaceComparisons }] = await Promise.all([
    import('../../src/repos/schema.ts'),
    import('../../src/benchmarks/schema.ts'),
    import('../../src/comparisons/schema.ts'),
  ])
  const { items: repositories } = await collectPages(async (query) => {
    const { body } = await call(service, repositoryContract.listRepositories, { params, query })
    return { items: body.repos, nextCursor: body.nextCursor }
  }, LISTED_MAX)
  const { items: benchmarks } = await collectPages(async (query) => {
    const { body } = await call(service, benchmarkContract.listBenchmarks, { params, query })
    return { items: body.benchmarks, nextCursor: body.nextCursor }
  }, LISTED_MAX)
  const { body } = await call(service, listWorkspaceComparisons, { params, query: { limit: LISTED_MAX } })
  return {
    repositories: repositories.map(({ fullName, visibility }) => ({ repository: fullName, visibility })),
    benchmarks: benchmarks.map(({ datasetOrg, dataset, tasks }) => ({ benchmark: `${datasetOrg}/${dataset}`, tasks })),
    comparisons: body.evaluations.map(({ id, scope, state }) => ({
      comparison: id,
      scope: scope.kind === 'benchmark' ? `${scope.datasetOrg}/${scope.dataset}` : `${scope.owner}/${scope.name}`,
      state,
    })),
  }
}
