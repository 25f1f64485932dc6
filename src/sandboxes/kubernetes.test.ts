import { describe } from 'vitest'
import { conformance } from '../../test/support/sandboxes/conformance.ts'
import {
  createKubernetesSubject,
  testKubeconfig,
  testRegistry,
  testStorageClass,
} from '../../test/support/sandboxes/kubernetes-subject.ts'

const NO_VOLUMES = 'Volumes need ASSAY_TEST_STORAGE_CLASS. The provider declares that sandboxes share none.'
const KUBELET_LOOKS =
  'The provider declares that disk use is watched: the kubelet looks every 10 s and removes the pod.'

const UNABLE = {
  ...(testStorageClass === undefined
    ? {
        'network: a volume starts with the files of the image and is shared': NO_VOLUMES,
        'network: a workspace base leaves the files of volumes alone': NO_VOLUMES,
        'network: remove leaves nothing and is idempotent': NO_VOLUMES,
        'a workspace base of /etc works in a sandbox with a volume': NO_VOLUMES,
      }
    : {}),
  'disk: files that the engine mounts count also in a sandbox with a volume': KUBELET_LOOKS,
  'disk: usage is limited, and the limit is reported': KUBELET_LOOKS,
  'disk: files that the engine mounts over the image count too': KUBELET_LOOKS,
  'pids: the number of processes is limited, and the limit is reported':
    'The provider declares that it does not limit processes: the API has no such limit.',
  'without a network nothing is reachable: this machine, name servers, metadata services':
    'A pod always has a network interface. The self-test tries that a policy denies its traffic.',
  ...(testRegistry === undefined
    ? {
        'a build reaches its proxy, but nothing of this machine or its networks, directly or through the proxy':
          'Images are built only with a registry.',
      }
    : {}),
}

describe.skipIf(testKubeconfig === undefined)('with the cluster of ASSAY_TEST_KUBECONFIG', () => {
  conformance('kubernetes', () => createKubernetesSubject(testKubeconfig ?? '', UNABLE))
})
