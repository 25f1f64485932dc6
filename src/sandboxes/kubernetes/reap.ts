import { isAbandoned, LABEL } from '../kernel/labels.ts'
import { type Cluster, podsPath } from './cluster.ts'
import { type Pod, removePod } from './pods.ts'

/** Removes pods of this installation whose owner has died or whose deadline has passed. */
export async function reap(cluster: Cluster): Promise<number> {
  const query = { labelSelector: `${LABEL.installation}=${cluster.installation}` }
  const { items } = await cluster.kubernetes.call<{ items: Pod[] }>('GET', podsPath(cluster), { query })
  let removed = 0
  for (const { metadata } of items) {
    if (!(await isAbandoned(metadata.annotations ?? {}))) continue
    await removePod(cluster, metadata.name)
    removed += 1
  }
  return removed
}
