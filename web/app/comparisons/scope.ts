import { linkOptions, useParams } from '@tanstack/react-router'
import { useMemo } from 'react'
import type { ComparisonEndpoints } from '../../../src/comparisons/schema.ts'
import type { Comparison } from '../../../src/comparisons/shapes/schema.ts'
import { inBenchmark, inRepository } from '../endpoints.gen.ts'

export type Scope = Comparison['scope']

/** The endpoints of a scope and the parameters in their paths, and the name of the scope. */
type ScopeTarget = { endpoints: ComparisonEndpoints; params: Record<string, string>; name: string }

export function toTarget(scope: Scope): ScopeTarget {
  const name = nameScope(scope)
  if (scope.kind === 'benchmark')
    return { endpoints: inBenchmark, params: { datasetOrg: scope.datasetOrg, dataset: scope.dataset }, name }
  return { endpoints: inRepository, params: { owner: scope.owner, name: scope.name }, name }
}

export const nameScope = (scope: Scope): string =>
  scope.kind === 'benchmark' ? `${scope.datasetOrg}/${scope.dataset}` : `${scope.owner}/${scope.name}`

/** A comparison as the API addresses it. `input` names it in every call. */
export type ComparisonTarget = ScopeTarget & { scope: Scope; input: { params: { comparisonId: string } } }

export type ComparisonProps = { target: ComparisonTarget; comparison: Comparison }

/** Returns the comparison that the address of the page names. */
export function useComparisonTarget(): ComparisonTarget {
  const { comparisonId = '', datasetOrg, dataset, owner = '', name = '' } = useParams({ strict: false })
  return useMemo(() => {
    const scope: Scope =
      datasetOrg !== undefined && dataset !== undefined
        ? { kind: 'benchmark', datasetOrg, dataset }
        : { kind: 'repository', owner, name }
    const target = toTarget(scope)
    return { ...target, scope, input: { params: { ...target.params, comparisonId } } }
  }, [comparisonId, datasetOrg, dataset, owner, name])
}

export const toComparisonLink = (scope: Scope, comparisonId: string) =>
  scope.kind === 'benchmark'
    ? linkOptions({
        to: '/benchmarks/$datasetOrg/$dataset/comparisons/$comparisonId',
        params: { datasetOrg: scope.datasetOrg, dataset: scope.dataset, comparisonId },
      })
    : linkOptions({
        to: '/repos/$owner/$name/comparisons/$comparisonId',
        params: { owner: scope.owner, name: scope.name, comparisonId },
      })

/** Returns the link to the page that compares two settings, `a` and `b`. */
export const toPairLink = (scope: Scope, comparisonId: string, search: { a?: string; b?: string }) =>
  scope.kind === 'benchmark'
    ? linkOptions({
        to: '/benchmarks/$datasetOrg/$dataset/comparisons/$comparisonId/pair',
        params: { datasetOrg: scope.datasetOrg, dataset: scope.dataset, comparisonId },
        search,
      })
    : linkOptions({
        to: '/repos/$owner/$name/comparisons/$comparisonId/pair',
        params: { owner: scope.owner, name: scope.name, comparisonId },
        search,
      })

/** Returns the link to the trials of a task in every setting. */
export const toTaskLink = (scope: Scope, comparisonId: string, task: string) =>
  scope.kind === 'benchmark'
    ? linkOptions({
        to: '/benchmarks/$datasetOrg/$dataset/comparisons/$comparisonId/task',
        params: { datasetOrg: scope.datasetOrg, dataset: scope.dataset, comparisonId },
        search: { task },
      })
    : linkOptions({
        to: '/repos/$owner/$name/comparisons/$comparisonId/task',
        params: { owner: scope.owner, name: scope.name, comparisonId },
        search: { task },
      })
