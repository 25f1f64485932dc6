import { expect, test } from 'vitest'
import { findStartProblem, type PodStatus } from './pods.ts'
import { findPodLimit } from './watch.ts'

const container = (state: object) => ({ name: 'main', imageID: '', state })

test.each<[string, PodStatus, RegExp | undefined]>([
  [
    'a pod that waits for its image',
    { phase: 'Pending', containerStatuses: [container({ waiting: { reason: 'ContainerCreating' } })] },
    undefined,
  ],
  [
    'an image that cannot be pulled',
    { phase: 'Pending', containerStatuses: [container({ waiting: { reason: 'ErrImagePull', message: 'not found' } })] },
    /^ErrImagePull: not found$/,
  ],
  [
    'a helper that fails',
    {
      phase: 'Pending',
      initContainerStatuses: [container({ terminated: { exitCode: 1, reason: 'Error', message: 'no setpriv' } })],
    },
    /Error \(1\) no setpriv/,
  ],
  [
    'a pod that was evicted',
    { phase: 'Failed', reason: 'Evicted', message: 'The node was low on resource: memory.' },
    /^Evicted: The node was low on resource/,
  ],
  ['a pod of a lost node', { phase: 'Failed', reason: 'NodeLost' }, /NodeLost/],
])('explains the start of %s', (_, status, expected) => {
  const problem = findStartProblem(status)
  if (expected === undefined) expect(problem).toBeUndefined()
  else expect(problem).toMatch(expected)
})

test('an eviction for its own disk use is the limit of the sandbox, and one for the node is not', () => {
  const evicted = (message: string): PodStatus => ({ phase: 'Failed', reason: 'Evicted', message })
  expect(findPodLimit(evicted('Container main exceeded its local ephemeral storage limit "96Mi". '))).toEqual({
    code: null,
    limit: 'disk',
  })
  expect(
    findPodLimit(evicted('Pod ephemeral local storage usage exceeds the total limit of containers 96Mi. ')),
  ).toEqual({
    code: null,
    limit: 'disk',
  })
  expect(
    findPodLimit(evicted('The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi')),
  ).toBeUndefined()
})

test('distinguishes a container that ran out of memory from other ends', () => {
  const ended = (reason: string): PodStatus => ({
    phase: 'Failed',
    containerStatuses: [container({ terminated: { exitCode: 137, reason } })],
  })
  expect(findPodLimit(ended('OOMKilled'))).toEqual({ code: 137, limit: 'memory' })
  expect(findPodLimit(ended('Error'))).toBeUndefined()
})

test('a helper that ran out of memory is the limit of the sandbox, whose connections took it', () => {
  const helper = { ...container({ terminated: { exitCode: 137, reason: 'OOMKilled' } }), name: 'helper' }
  const status: PodStatus = { phase: 'Running', containerStatuses: [container({ running: {} }), helper] }
  expect(findPodLimit(status)).toEqual({ code: 137, limit: 'memory' })
})
