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
const at = () => root

const overview = createRoute({
  getParentRoute: at,
  path: '/',
  component: lazyRouteComponent(() => import('./overview/overview-page.tsx'), 'OverviewPage'),
})

const comparisons = createRoute({
  getParentRoute: at,
  path: '/comparisons',
  component: lazyRouteComponent(() => import('./comparisons/comparisons-page.tsx'), 'ComparisonsPage'),
})

const loadComparison = () => import('./comparisons/comparison-page.tsx')
const benchmarkComparison = createRoute({
  getParentRoute: at,
  path: '/benchmarks/$datasetOrg/$dataset/comparisons/$comparisonId',
  component: lazyRouteComponent(loadComparison, 'ComparisonPage'),
})
const repositoryComparison = createRoute({
  getParentRoute: at,
  path: '/repos/$owner/$name/comparisons/$comparisonId',
  component: lazyRouteComponent(loadComparison, 'ComparisonPage'),
})

const trial = createRoute({
  getParentRoute: at,
  path: '/trials/$trialId',
  validateSearch: parseTrialSearch,
  component: lazyRouteComponent(() => import('./trials/trial-page.tsx'), 'TrialPage'),
})

/** Pages of the app. Each is loaded when it is first opened. */
export const router = createRouter({
  routeTree: root.addChildren([overview, comparisons, benchmarkComparison, repositoryComparison, trial]),
  basepath: '/app',
  defaultPreload: 'intent',
  scrollRestoration: true,
  defaultErrorComponent: FailedPage,
})

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
