import {
  createRootRoute,
  createRoute,
  createRouter,
  type ErrorComponentProps,
  Link,
  lazyRouteComponent,
} from '@tanstack/react-router'
import { Page } from './components/page.tsx'
import { ProblemNote } from './components/problem-note.tsx'
import { Shell } from './shell/shell.tsx'
import { parseTrialSearch } from './trials/trial-search.ts'

const root = createRootRoute({ component: Shell, notFoundComponent: NotFoundPage })
const getRoot = () => root

const overview = createRoute({
  getParentRoute: getRoot,
  path: '/',
  component: lazyRouteComponent(() => import('./overview/overview-page.tsx'), 'OverviewPage'),
})

const comparisons = createRoute({
  getParentRoute: getRoot,
  path: '/comparisons',
  component: lazyRouteComponent(() => import('./comparisons/comparisons-page.tsx'), 'ComparisonsPage'),
})

const newComparison = createRoute({
  getParentRoute: getRoot,
  path: '/comparisons/new',
  validateSearch: ({ on }): { on?: string } => (typeof on === 'string' ? { on } : {}),
  component: lazyRouteComponent(() => import('./comparisons/new-comparison-page.tsx'), 'NewComparisonPage'),
})

const loadComparison = () => import('./comparisons/comparison-page.tsx')
const benchmarkComparison = createRoute({
  getParentRoute: getRoot,
  path: '/benchmarks/$datasetOrg/$dataset/comparisons/$comparisonId',
  component: lazyRouteComponent(loadComparison, 'ComparisonPage'),
})
const repositoryComparison = createRoute({
  getParentRoute: getRoot,
  path: '/repos/$owner/$name/comparisons/$comparisonId',
  component: lazyRouteComponent(loadComparison, 'ComparisonPage'),
})

const trial = createRoute({
  getParentRoute: getRoot,
  path: '/trials/$trialId',
  validateSearch: parseTrialSearch,
  component: lazyRouteComponent(() => import('./trials/trial-page.tsx'), 'TrialPage'),
})

/** Keeps the ids of the two settings that the page of a pair compares. */
const parsePairSearch = ({ a, b }: Record<string, unknown>): { a?: string; b?: string } => ({
  ...(typeof a === 'string' ? { a } : {}),
  ...(typeof b === 'string' ? { b } : {}),
})
const loadPair = () => import('./comparisons/pair-page.tsx')
const benchmarkPair = createRoute({
  getParentRoute: getRoot,
  path: '/benchmarks/$datasetOrg/$dataset/comparisons/$comparisonId/pair',
  validateSearch: parsePairSearch,
  component: lazyRouteComponent(loadPair, 'PairPage'),
})
const repositoryPair = createRoute({
  getParentRoute: getRoot,
  path: '/repos/$owner/$name/comparisons/$comparisonId/pair',
  validateSearch: parsePairSearch,
  component: lazyRouteComponent(loadPair, 'PairPage'),
})

const parseTaskSearch = ({ task }: Record<string, unknown>): { task: string } => ({ task: String(task ?? '') })
const loadTask = () => import('./comparisons/task-page.tsx')
const benchmarkTask = createRoute({
  getParentRoute: getRoot,
  path: '/benchmarks/$datasetOrg/$dataset/comparisons/$comparisonId/task',
  validateSearch: parseTaskSearch,
  component: lazyRouteComponent(loadTask, 'TaskPage'),
})
const repositoryTask = createRoute({
  getParentRoute: getRoot,
  path: '/repos/$owner/$name/comparisons/$comparisonId/task',
  validateSearch: parseTaskSearch,
  component: lazyRouteComponent(loadTask, 'TaskPage'),
})

const repositories = createRoute({
  getParentRoute: getRoot,
  path: '/repos',
  component: lazyRouteComponent(() => import('./repositories/repositories-page.tsx'), 'RepositoriesPage'),
})
const repository = createRoute({
  getParentRoute: getRoot,
  path: '/repos/$owner/$name',
  component: lazyRouteComponent(() => import('./repositories/repository-page.tsx'), 'RepositoryPage'),
})
const review = createRoute({
  getParentRoute: getRoot,
  path: '/repos/$owner/$name/batches/$runId/review',
  // The router parses an id of digits as a number.
  validateSearch: ({ task }: Record<string, unknown>): { task?: string } =>
    typeof task === 'string' || typeof task === 'number' ? { task: String(task) } : {},
  component: lazyRouteComponent(() => import('./repositories/review-page.tsx'), 'ReviewPage'),
})

const benchmarks = createRoute({
  getParentRoute: getRoot,
  path: '/benchmarks',
  validateSearch: ({ add }): { add?: string } => (typeof add === 'string' ? { add } : {}),
  component: lazyRouteComponent(() => import('./benchmarks/benchmarks-page.tsx'), 'BenchmarksPage'),
})
const benchmark = createRoute({
  getParentRoute: getRoot,
  path: '/benchmarks/$datasetOrg/$dataset',
  validateSearch: ({ task }): { task?: string } => (typeof task === 'string' ? { task } : {}),
  component: lazyRouteComponent(() => import('./benchmarks/benchmark-page.tsx'), 'BenchmarkPage'),
})

const configurations = createRoute({
  getParentRoute: getRoot,
  path: '/configurations',
  component: lazyRouteComponent(() => import('./configurations/configurations-page.tsx'), 'ConfigurationsPage'),
})
const configuration = createRoute({
  getParentRoute: getRoot,
  path: '/configurations/$name',
  validateSearch: ({ version }: Record<string, unknown>): { version?: number } =>
    Number(version) > 0 ? { version: Number(version) } : {},
  component: lazyRouteComponent(() => import('./configurations/configuration-page.tsx'), 'ConfigurationPage'),
})

const releases = createRoute({
  getParentRoute: getRoot,
  path: '/releases',
  component: lazyRouteComponent(() => import('./releases/releases-page.tsx'), 'ReleasesPage'),
})
const publish = createRoute({
  getParentRoute: getRoot,
  path: '/repos/$owner/$name/publish',
  component: lazyRouteComponent(() => import('./releases/publish-page.tsx'), 'PublishPage'),
})

const credentials = createRoute({
  getParentRoute: getRoot,
  path: '/settings/credentials',
  component: lazyRouteComponent(() => import('./settings/credentials-page.tsx'), 'CredentialsPage'),
})
const keys = createRoute({
  getParentRoute: getRoot,
  path: '/settings/keys',
  component: lazyRouteComponent(() => import('./settings/keys-page.tsx'), 'KeysPage'),
})
const models = createRoute({
  getParentRoute: getRoot,
  path: '/settings/models',
  component: lazyRouteComponent(() => import('./settings/models-page.tsx'), 'ModelsPage'),
})
const webhooks = createRoute({
  getParentRoute: getRoot,
  path: '/settings/webhooks',
  component: lazyRouteComponent(() => import('./settings/webhooks-page.tsx'), 'WebhooksPage'),
})
const webhook = createRoute({
  getParentRoute: getRoot,
  path: '/settings/webhooks/$webhookId',
  component: lazyRouteComponent(() => import('./settings/webhook-page.tsx'), 'WebhookPage'),
})
const spend = createRoute({
  getParentRoute: getRoot,
  path: '/settings/spend',
  component: lazyRouteComponent(() => import('./settings/spend-page.tsx'), 'SpendPage'),
})
const operations = createRoute({
  getParentRoute: getRoot,
  path: '/operations',
  component: lazyRouteComponent(() => import('./operations/operations-page.tsx'), 'OperationsPage'),
})
const audit = createRoute({
  getParentRoute: getRoot,
  path: '/settings/audit',
  component: lazyRouteComponent(() => import('./settings/audit-page.tsx'), 'AuditPage'),
})

/** Pages of the app. Each is loaded when it is first opened. */
export const router = createRouter({
  routeTree: root.addChildren([
    overview,
    comparisons,
    newComparison,
    benchmarkComparison,
    repositoryComparison,
    benchmarkPair,
    repositoryPair,
    benchmarkTask,
    repositoryTask,
    trial,
    repositories,
    repository,
    review,
    benchmarks,
    benchmark,
    configurations,
    configuration,
    releases,
    publish,
    models,
    credentials,
    keys,
    webhooks,
    webhook,
    spend,
    operations,
    audit,
  ]),
  basepath: '/app',
  defaultPreload: 'intent',
  scrollRestoration: true,
  defaultErrorComponent: FailedPage,
})

/** Starts loading the code of the page at the current address, before the session is known. */
export function preloadPage(): void {
  for (const { routeId } of router.matchRoutes(router.latestLocation))
    void router.loadRouteChunk(router.routesById[routeId as keyof typeof router.routesById])
}

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}

function NotFoundPage() {
  return (
    <Page title="Page not found">
      <p>
        The address may be misspelled. <Link to="/">Go to the overview</Link>
      </p>
    </Page>
  )
}

function FailedPage({ error, reset }: ErrorComponentProps) {
  return (
    <Page title="This page has failed">
      <ProblemNote error={error} onRetry={reset} />
    </Page>
  )
}
