import { describe } from 'vitest'
import { conformance } from '../../test/support/sandboxes/conformance.ts'
import { groupCases } from '../../test/support/sandboxes/group-cases.ts'
import { createKubernetesSubject, testKubeconfig } from '../../test/support/sandboxes/kubernetes-subject.ts'

const NO_NETWORKS = 'The provider declares that it has no sandbox networks.'
const KUBELET_LOOKS =
  'The provider declares that disk use is watched: the kubelet looks every 10 s and removes the pod.'

const UNABLE = {
  ...Object.fromEntries(groupCases.map(({ name }) => [name, NO_NETWORKS])),
  'a workspace seed of /etc works in a sandbox with a volume': NO_NETWORKS,
  'disk: files that the engine mounts count also in a sandbox with a volume': NO_NETWORKS,
  'disk: no more than its limit, and the limit is named': KUBELET_LOOKS,
  'disk: files that the engine mounts over the image count too': KUBELET_LOOKS,
  'pids: no more processes than the limit, and the limit is named':
    'The provider declares that it does not limit processes: the API has no such limit.',
  'without a network nothing answers: not this machine, not its addresses, no name server, no metadata':
    'A pod always has a network interface. The self-test tries that a policy denies its traffic.',
  'a build reaches its proxy, and neither by itself nor through it anything of this machine or around it':
    'Images are not built.',
}

describe.skipIf(testKubeconfig === undefined)('with the cluster of ASSAY_TEST_KUBECONFIG', () => {
  conformance('kubernetes', () => createKubernetesSubject(testKubeconfig ?? '', UNABLE))
})
