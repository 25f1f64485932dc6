import { z } from 'zod'
import type { Catalog } from '../../src/catalog/schema.ts'
import type { Comparison } from '../../src/comparisons/shapes/schema.ts'
import { call } from '../../src/platform/http/client.ts'
import { listAnsweredPairs } from '../comparison-answer.ts'
import { formatQuote } from '../comparison-quote.ts'
import { formatMarkdown } from '../comparison-reports.ts'
import { buildRequest, type RequestFlags, warnOfKnownTasks } from '../comparison-request.ts'
import { openScope, type ScopeClient, type ScopeFlags } from '../comparison-scope.ts'
import { WrongUse } from '../failure.ts'
import type { Service } from '../service.ts'
import { formatCount } from '../table.ts'
import { waitForComparison } from '../watch-comparison.ts'
import { confirm } from './batch-tools.ts'
import { abortAfter, defineTool, type McpTool, type ToolContext, type ToolOutput, waitSeconds } from './tool.ts'

/** The scope of a comparison. Exactly one of the two must be given. */
export const scopeInput = {
  benchmark: z.string().max(201).optional().describe('Benchmark as org/name'),
  repository: z.string().max(201).optional().describe('Repository as owner/name, instead of a benchmark'),
}
type ScopeInput = { benchmark?: string | undefined; repository?: string | undefined }

export const comparisonId = z.uuid().optional().describe('Comparison id (default: the newest of the scope)')

const usd = z.number().min(0).max(1_000_000).optional()

export const comparisonTools: McpTool[] = [
  defineTool({
    name: 'list_models',
    title: 'List models and harnesses',
    description:
      'List the models for which there is a credential, with their reasoning levels, harnesses and prices, and the sandboxes.',
    effect: 'reads',
    input: z.object(scopeInput),
    run: async (context, given) => {
      const { service, scope } = await openToolScope(context, given)
      const { body } = await call(service, scope.endpoints.catalog, { params: { org: service.org, ...scope.params } })
      return describeCatalog(body)
    },
  }),
  defineTool({
    name: 'compare',
    title: 'Compare models and harnesses',
    description:
      'Compare settings (model, harness, reasoning level) on a benchmark or on the approved tasks of a repository. Without confirm it returns a quote (cost, duration, smallest visible difference) and starts nothing; with confirm: true it starts and spends money.',
    effect: 'spends',
    input: z.object({
      ...scopeInput,
      models: z
        .array(z.string().max(300))
        .min(1)
        .max(12)
        .default(['reference'])
        .describe(
          'Each `id`, `id@level` or `id@level=harness,harness`, as list_models names them. `reference` is free',
        ),
      configurations: z
        .array(z.string().regex(/^[a-z0-9][a-z0-9._-]*(@\d+)?$/))
        .max(8)
        .default([])
        .describe(
          'Names of agent configurations; `none` is no configuration. Each model is compared with each of them',
        ),
      tasks: z
        .array(z.string().max(300))
        .max(5000)
        .default([])
        .describe('Only tasks whose name matches one of these globs'),
      limit: z.number().int().min(1).optional().describe('Only the first tasks'),
      attempts: z.number().int().min(1).max(10).default(1).describe('Trials per task and setting'),
      sandbox: z.string().max(100).optional().describe('Sandbox (default: the first available)'),
      budgetUsd: usd.describe('Start no new trials after spending this much'),
      trialBudgetUsd: usd.describe('Stop a trial after spending this much'),
      skipCompleted: z.boolean().default(false).describe('Reuse results of earlier comparisons'),
      confirm,
    }),
    run: async (context, { confirm: isConfirmed, ...given }) => {
      const { service, scope } = await openToolScope(context, given)
      const { body: catalog } = await call(service, scope.endpoints.catalog, {
        params: { org: service.org, ...scope.params },
      })
      const configurations = given.configurations.map((name) => (name === 'none' ? undefined : name))
      const request = buildRequest(catalog, toFlags(given), configurations.length === 0 ? [undefined] : configurations)
      const prepared = await scope.prepare(service, request)
      const quote = await prepared.quote()
      const quoteLines = [...warnOfKnownTasks(catalog, request, prepared.mergedAt), ...formatQuote(quote)]
      if (!isConfirmed)
        return {
          message: 'Nothing was started. Repeat with confirm: true to start this comparison.',
          lines: quoteLines,
          data: { started: false, quote },
        }
      const { id, state } = await prepared.create()
      return {
        message: `Comparison ${id} has started. Next: wait_for_comparison.`,
        lines: quoteLines,
        data: { started: true, comparison: id, state, quote },
      }
    },
  }),
  defineTool({
    name: 'wait_for_comparison',
    title: 'Wait for a comparison',
    description:
      'Wait until a comparison has ended or paused, or until the given seconds have passed. Returns the answer once it has ended. Repeat it while the comparison runs.',
    effect: 'reads',
    input: z.object({ ...scopeInput, comparison: comparisonId, seconds: waitSeconds }),
    run: async (context, { comparison, seconds, ...given }) => {
      const opened = await openComparison(context, given, comparison)
      const { service, scope, params } = opened
      const target = { endpoints: scope.endpoints, params: { ...scope.params, comparisonId: params.comparisonId } }
      const ended = await waitForComparison(service, target, abortAfter(seconds, context.signal), ({ state, trials }) =>
        context.progress(`${state}: ${trials.total - trials.queued - trials.running} of ${trials.total} trials`),
      )
      if (ended) return describeAnswer(opened)
      const { body } = await call(service, scope.endpoints.read, { params })
      const endedTrials = body.trials.total - body.trials.queued - body.trials.running
      return {
        message: `The comparison is ${body.state}: ${endedTrials} of ${body.trials.total} trials. Wait again.`,
        data: summariseComparison(body),
      }
    },
  }),
  defineTool({
    name: 'read_answer',
    title: 'Read the answer of a comparison',
    description:
      'Read the recommendation of a comparison in one or two sentences, with accuracy, intervals and cost of every setting and the pairs behind it.',
    effect: 'reads',
    input: z.object({ ...scopeInput, comparison: comparisonId }),
    run: async (context, { comparison, ...given }) => describeAnswer(await openComparison(context, given, comparison)),
  }),
  defineTool({
    name: 'cancel_comparison',
    title: 'Cancel a comparison',
    description: 'Cancel all open trials of a comparison. Results so far stay.',
    effect: 'changes',
    input: z.object({ ...scopeInput, comparison: comparisonId }),
    run: async (context, { comparison, ...given }) => {
      const { service, scope, params } = await openComparison(context, given, comparison)
      const { body } = await call(service, scope.endpoints.cancel, { params })
      return { message: `Comparison ${body.id} is ${body.state}.`, data: summariseComparison(body) }
    },
  }),
]

type CompareInput = {
  models: string[]
  tasks: string[]
  limit?: number | undefined
  attempts: number
  sandbox?: string | undefined
  budgetUsd?: number | undefined
  trialBudgetUsd?: number | undefined
  skipCompleted: boolean
}

/** Converts the input to options of `assay compare`, so that both build the same request. */
function toFlags({ models, attempts, sandbox, budgetUsd, trialBudgetUsd, skipCompleted }: CompareInput): RequestFlags {
  const flags: RequestFlags = { model: models, configuration: [], attempts: String(attempts), skipCompleted }
  if (sandbox !== undefined) flags.sandbox = sandbox
  if (budgetUsd !== undefined) flags.budget = String(budgetUsd)
  if (trialBudgetUsd !== undefined) flags.trialBudget = String(trialBudgetUsd)
  return flags
}

type OpenedScope = { service: Service; scope: ScopeClient }

async function openToolScope(
  { openService }: ToolContext,
  given: ScopeInput & Partial<Pick<CompareInput, 'tasks' | 'limit'>>,
): Promise<OpenedScope> {
  const { benchmark, repository, tasks = [], limit } = given
  const hasBenchmark = benchmark !== undefined
  const hasRepository = repository !== undefined
  if (hasBenchmark === hasRepository) throw new WrongUse('Give either a benchmark or a repository.')
  const flags: ScopeFlags = { task: tasks }
  if (repository !== undefined) flags.repo = repository
  if (limit !== undefined) flags.limit = String(limit)
  const scope = await openScope(flags, benchmark)
  return { service: await openService(), scope }
}

type OpenedComparison = OpenedScope & { params: Record<string, string> & { org: string; comparisonId: string } }

/** Opens a comparison, by default the newest of the scope. */
export async function openComparison(
  context: ToolContext,
  given: ScopeInput,
  comparison: string | undefined,
): Promise<OpenedComparison> {
  const { service, scope } = await openToolScope(context, given)
  const params = { org: service.org, ...scope.params }
  const id = comparison ?? (await findNewestComparison(service, scope))
  if (id === undefined) throw new WrongUse('There is no comparison yet. Create one with compare.')
  return { service, scope, params: { ...params, comparisonId: id } }
}

async function findNewestComparison(service: Service, { endpoints, params }: ScopeClient): Promise<string | undefined> {
  const { body } = await call(service, endpoints.list, { params: { org: service.org, ...params }, query: { limit: 1 } })
  return body.evaluations[0]?.id
}

async function describeAnswer({ service, scope, params }: OpenedComparison): Promise<ToolOutput> {
  const { body } = await call(service, scope.endpoints.read, { params })
  const scoped = { scope, id: params.comparisonId }
  // The option `json: false` leaves out long lists of pairs.
  const pairs = await listAnsweredPairs({ ...service, json: false }, scoped, body)
  const reason = body.submissionError?.message ?? body.pause?.message
  const { answer, ...rest } = body
  return {
    message: answer?.text ?? `The comparison is ${body.state}.`,
    lines: [
      ...formatMarkdown(rest),
      ...(body.trials.errored > 0
        ? [`${formatCount(body.trials.errored, 'trial')} errored and not scored. See list_trials.`]
        : []),
    ],
    data: { ...summariseComparison(body), answer, pairs: pairs?.map(summarisePair) },
    untrusted: reason === undefined ? undefined : { reason },
  }
}

const summariseComparison = ({ id, state, trials, costUsd, settings, frontier }: Comparison) => ({
  comparison: id,
  state,
  trials,
  costUsd,
  frontier,
  settings: settings.map((setting) => ({
    setting: setting.id,
    passed: setting.passed,
    tasks: setting.tasks,
    accuracy: setting.accuracy,
    interval: setting.stats.ci95 && { low: setting.stats.ci95.low, high: setting.stats.ci95.high },
    costPerTaskUsd: setting.costPerTaskUsd,
    errored: setting.trials.errored,
  })),
})

type ListedPair = NonNullable<Awaited<ReturnType<typeof listAnsweredPairs>>>[number]

const summarisePair = ({ a, b, wonByA, wonByB, difference, verdict }: ListedPair) => ({
  a,
  b,
  wonByA,
  wonByB,
  points: difference?.points,
  verdict,
})

function describeCatalog({ models, sandboxes }: Catalog): ToolOutput {
  const usable = models.filter(({ credentials }) => credentials.length > 0)
  return {
    message: `${formatCount(usable.length, 'model')} can be compared.`,
    lines: [
      ...usable.map(
        ({ catalogId, reasoningLevels, harnesses, prices }) =>
          `${catalogId}: levels ${reasoningLevels.join(' ')}; harnesses ${harnesses.join(' ')}; $${prices.input} in, $${prices.output} out per million tokens`,
      ),
      `${formatCount(models.length - usable.length, 'other model')} without a credential. Add one with: assay credentials add model <provider> --name <name>`,
      ...sandboxes.map(({ id, available }) => `sandbox ${id}: ${available ? 'available' : 'not available'}`),
    ],
    data: {
      models: usable.map(({ catalogId, reasoningLevels, defaultReasoningLevel, harnesses, prices }) => ({
        model: catalogId,
        reasoningLevels,
        defaultReasoningLevel,
        harnesses,
        prices: { input: prices.input, output: prices.output },
      })),
      sandboxes: sandboxes.map(({ id, available }) => ({ sandbox: id, available })),
    },
  }
}
