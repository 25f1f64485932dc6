import { CAPABILITIES, FIRST_PROCESS_CAPABILITY, HOSTNAME } from '../kernel/accounts.ts'
import { LABEL } from '../kernel/ownership.ts'
import type { Mount, SandboxSpec } from '../sandbox.ts'
import { type Cluster, HELPER, MAIN } from './cluster.ts'
import { type FolderImages, IMAGE_FOLDER } from './folder-images.ts'
import { buildRecorderCommand, PIPES_FOLDER } from './recorder.ts'
import { type PodVolumes, toVolumeFolder } from './shared-volumes.ts'
import {
  buildScriptCommand,
  buildToolCommand,
  FILL_VOLUMES_SCRIPT,
  FIRST_PROCESS_SCRIPT,
  INSTALL_FOLDER,
  INSTALL_SCRIPT,
  TOOLS_FOLDER,
  VOLUMES_FOLDER,
} from './tools.ts'

/** Label that the network policy selects. */
export const NO_NETWORK_LABEL = { 'assay.network': 'none' }

/** Annotation of pods that another process can adopt. */
export const ADOPTABLE = 'assay.adoptable'

type PodInput = Pick<SandboxSpec, 'id' | 'mounts' | 'limits' | 'ports' | 'isAdoptable'>

/** Settings of a pod that make it a member of a sandbox network. */
export type PodNetwork = { label: string; hostname: string }

type PodOptions = {
  name: string
  reference: string
  role: 'sandbox' | 'probe'
  /** Undefined for a pod that is in no sandbox network. */
  network?: PodNetwork | undefined
  /** Undefined for a pod that mounts no volumes of its network. */
  volumes?: PodVolumes | undefined
  /** Images of mounted folders. The others stay empty until they are uploaded. */
  folderImages?: FolderImages | undefined
}

/** Time for collecting the files of a sandbox after its time limit. When it has passed, the cluster ends the pod. */
const COLLECT_SECONDS = 3600
const HELPER_MEMORY = { requested: '256Mi', limit: '384Mi' }
/** Space for folders that are copied into the pod, such as the program of a harness. */
const HELPER_DISK = '8Gi'
/** Space of the tools, which the cluster counts as disk usage of the sandbox. */
const TOOLS_MB = 32

/** Folder of the helper container in which the folder mounts of a sandbox are visible, by their position. */
export const toMountFolder = (index: number): string => `/mounts/${index}`

const needsHelper = ({ mounts, ports, isAdoptable }: PodInput, { network }: PodOptions): boolean =>
  isAdoptable || network !== undefined || ports.length > 0 || mounts.some(({ kind }) => kind === 'folder')

/** Builds the pod of a sandbox: the main container, and where needed a helper that shares its network and volumes. */
export function buildPod(cluster: Cluster, spec: PodInput, options: PodOptions): Record<string, unknown> {
  const { runtimeClass, nodeSelector, tolerations, pullSecrets } = cluster.settings
  const { network, volumes, folderImages = new Map() } = options
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: buildMetadata(cluster, spec, options),
    spec: {
      ...POD_ISOLATION,
      ...(network ? { securityContext: MEMBER_SECURITY } : {}),
      hostname: network?.hostname ?? HOSTNAME,
      activeDeadlineSeconds: Math.ceil(spec.limits.seconds) + COLLECT_SECONDS,
      runtimeClassName: runtimeClass,
      nodeSelector,
      tolerations,
      imagePullSecrets: pullSecrets.map((name) => ({ name })),
      affinity: volumes && buildNodeAffinity(volumes),
      initContainers: [
        buildToolsContainer(cluster),
        ...(volumes && volumes.unfilled.length > 0 ? [buildFillContainer(options.reference, volumes)] : []),
        ...[...folderImages].map(([index, image]) => buildFolderContainer(index, image)),
      ],
      containers: [
        buildMainContainer(cluster, spec, options),
        ...(needsHelper(spec, options) ? [buildHelperContainer(cluster, spec)] : []),
      ],
      volumes: [
        { name: 'tools', emptyDir: {} },
        { name: 'shm', emptyDir: { medium: 'Memory', sizeLimit: `${spec.limits.shmMb}Mi` } },
        ...(spec.isAdoptable ? [{ name: 'pipes', emptyDir: { medium: 'Memory', sizeLimit: '1Mi' } }] : []),
        ...(volumes ? [{ name: 'volumes', persistentVolumeClaim: { claimName: volumes.claim } }] : []),
        ...spec.mounts.flatMap(toVolume),
      ],
    },
  }
}

const buildMetadata = (
  { installation, owner }: Cluster,
  { id, limits, isAdoptable }: PodInput,
  { name, role, network, volumes }: PodOptions,
) => ({
  name,
  labels: {
    [LABEL.installation]: installation,
    [LABEL.role]: role,
    ...NO_NETWORK_LABEL,
    ...(network ? { [LABEL.network]: network.label } : {}),
    ...(volumes ? { [VOLUMES_LABEL]: volumes.claim } : {}),
  },
  annotations: {
    [LABEL.sandbox]: id,
    [LABEL.owner]: owner,
    [LABEL.deadline]: String(Date.now() + limits.seconds * 1000),
    ...(isAdoptable ? { [ADOPTABLE]: 'true' } : {}),
  },
})

/** Settings of every pod. The name server does not exist, because sandboxes have no network. */
export const POD_ISOLATION = {
  restartPolicy: 'Never',
  automountServiceAccountToken: false,
  enableServiceLinks: false,
  terminationGracePeriodSeconds: 0,
  dnsPolicy: 'None',
  dnsConfig: {
    nameservers: ['127.0.0.1'],
    options: [
      { name: 'timeout', value: '1' },
      { name: 'attempts', value: '1' },
    ],
  },
  securityContext: { seccompProfile: { type: 'RuntimeDefault' } },
}

/** Security settings of network members: every user may listen on any port, as in Docker. */
const MEMBER_SECURITY = {
  ...POD_ISOLATION.securityContext,
  sysctls: [{ name: 'net.ipv4.ip_unprivileged_port_start', value: '0' }],
}

/** Rights of containers that run only our own programs. */
export const LOCKED_DOWN = {
  runAsUser: 0,
  runAsGroup: 0,
  allowPrivilegeEscalation: false,
  capabilities: { drop: ['ALL'], add: ['CHOWN', 'DAC_OVERRIDE', 'FOWNER'] },
}

/** Escapes a command in a pod, in which `$$` stands for `$` and `$(NAME)` for a variable. */
const escapeVariables = (words: string[]): string[] => words.map((word) => word.replaceAll('$', '$$$$'))

const buildToolsContainer = ({ settings }: Cluster) => ({
  name: 'tools',
  image: settings.helperImage,
  imagePullPolicy: 'IfNotPresent',
  command: escapeVariables(['sh', '-c', INSTALL_SCRIPT]),
  securityContext: LOCKED_DOWN,
  resources: buildHelperResources({ requested: '64Mi', limit: '64Mi' }),
  volumeMounts: [{ name: 'tools', mountPath: INSTALL_FOLDER }],
})

/** Label of the pods that share the volumes of a network. */
const VOLUMES_LABEL = 'assay.volumes'

/** Builds the rule that places all pods which share volumes on one node. */
const buildNodeAffinity = ({ claim }: PodVolumes) => ({
  podAffinity: {
    requiredDuringSchedulingIgnoredDuringExecution: [
      { labelSelector: { matchLabels: { [VOLUMES_LABEL]: claim } }, topologyKey: 'kubernetes.io/hostname' },
    ],
  },
})

/** Builds the container that copies files of the image to volumes which have not been used before. */
const buildFillContainer = (image: string, { unfilled }: PodVolumes) => {
  const pairs = unfilled.flatMap(({ folder, target }) => [`${VOLUMES_FOLDER}/${folder}`, target])
  const volume = { name: 'volumes', mountPath: VOLUMES_FOLDER }
  return buildCopyContainer({
    name: 'volumes',
    image,
    command: buildScriptCommand(FILL_VOLUMES_SCRIPT, ...pairs),
    volume,
  })
}

/** Builds the container that copies a folder from its image to the volume that the main container mounts. */
const buildFolderContainer = (index: number, image: string) => {
  const volume = { name: toVolumeName(index), mountPath: toMountFolder(index) }
  const command = buildToolCommand('cp', '--archive', `${IMAGE_FOLDER}/.`, volume.mountPath)
  return buildCopyContainer({ name: `folder-${index}`, image, command, volume })
}

type CopyContainer = { name: string; image: string; command: string[]; volume: { name: string; mountPath: string } }

/** Builds a container that copies files of its image to a volume, with our own programs. */
const buildCopyContainer = ({ name, image, command, volume }: CopyContainer) => ({
  name,
  image,
  imagePullPolicy: 'IfNotPresent',
  command: escapeVariables(command),
  env: PROGRAM_ENV,
  workingDir: '/',
  securityContext: LOCKED_DOWN,
  resources: buildHelperResources({ requested: '64Mi', limit: '64Mi' }),
  volumeMounts: [{ name: 'tools', mountPath: TOOLS_FOLDER, readOnly: true }, volume],
})

/** Overrides variables of the image that would load libraries or locales into our own programs. */
const PROGRAM_ENV = [
  { name: 'LD_PRELOAD', value: '' },
  { name: 'LC_ALL', value: 'C' },
]

/**
 * Builds the main container. It reserves all memory and disk that its task declares, and the part of its processors that
 * `cpuRequest` sets.
 */
function buildMainContainer(
  { settings }: Cluster,
  { limits, mounts, isAdoptable }: PodInput,
  { reference, role }: PodOptions,
): Record<string, unknown> {
  const resources = {
    cpu: formatCpus(limits.cpus),
    memory: `${limits.memoryMb}Mi`,
    'ephemeral-storage': `${limits.diskMb + TOOLS_MB}Mi`,
  }
  const rights = { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'], add: FIRST_PROCESS_CAPABILITIES } }
  return {
    name: MAIN,
    image: reference,
    imagePullPolicy: 'IfNotPresent',
    command: escapeVariables(buildScriptCommand(FIRST_PROCESS_SCRIPT)),
    env: PROGRAM_ENV,
    stdin: true,
    // The input of an adoptable sandbox stays open when its worker dies, so that the next one can attach.
    stdinOnce: !isAdoptable,
    // A probe keeps the user and the working directory of the image, in order to report them.
    ...(role === 'probe' ? {} : { workingDir: '/' }),
    securityContext: role === 'probe' ? rights : { ...rights, runAsUser: 0, runAsGroup: 0 },
    resources: { limits: resources, requests: { ...resources, cpu: formatCpus(limits.cpus * settings.cpuRequest) } },
    volumeMounts: [
      { name: 'tools', mountPath: TOOLS_FOLDER, readOnly: true },
      { name: 'shm', mountPath: '/dev/shm' },
      ...(isAdoptable ? [{ name: 'pipes', mountPath: PIPES_FOLDER, readOnly: true }] : []),
      ...mounts.map(toVolumeMount),
    ],
  }
}

const formatCpus = (cpus: number): string => `${Math.max(1, Math.round(cpus * 1000))}m`

const FIRST_PROCESS_CAPABILITIES = [...CAPABILITIES, FIRST_PROCESS_CAPABILITY]

/**
 * Builds the helper container, which copies folder mounts in and out, carries the ports, and records the output of
 * adoptable sandboxes. It runs nothing of a task.
 */
const buildHelperContainer = ({ settings }: Cluster, { mounts, limits, ports, isAdoptable }: PodInput) => ({
  name: HELPER,
  image: settings.helperImage,
  imagePullPolicy: 'IfNotPresent',
  command: isAdoptable ? escapeVariables(buildRecorderCommand({ limits, ports })) : ['sleep', 'infinity'],
  securityContext: LOCKED_DOWN,
  resources: buildHelperResources(HELPER_MEMORY),
  volumeMounts: [
    ...(isAdoptable ? [{ name: 'pipes', mountPath: PIPES_FOLDER }] : []),
    ...mounts.flatMap((mount, index) =>
      mount.kind === 'folder' ? [{ name: toVolumeName(index), mountPath: toMountFolder(index) }] : [],
    ),
  ],
})

/** Returns the resources of one of our own containers. All are set, because a namespace with a quota requires it. */
const buildHelperResources = (memory: { requested: string; limit: string }) => ({
  requests: { cpu: '10m', memory: memory.requested, 'ephemeral-storage': '1Mi' },
  limits: { cpu: '2', memory: memory.limit, 'ephemeral-storage': HELPER_DISK },
})

const toVolumeName = (index: number): string => `mount-${index}`

function toVolumeMount(mount: Mount, index: number): Record<string, unknown> {
  const { kind, target: mountPath } = mount
  if (kind === 'tmpfs') return { name: toVolumeName(index), mountPath }
  if (kind === 'folder') return { name: toVolumeName(index), mountPath, readOnly: mount.readOnly }
  return { name: 'volumes', subPath: toVolumeFolder(mount.name), mountPath, readOnly: mount.readOnly }
}

function toVolume(mount: Mount, index: number): Record<string, unknown>[] {
  if (mount.kind === 'volume') return []
  if (mount.kind === 'folder') return [{ name: toVolumeName(index), emptyDir: {} }]
  const size = mount.sizeMb === null ? {} : { sizeLimit: `${mount.sizeMb}Mi` }
  return [{ name: toVolumeName(index), emptyDir: { medium: 'Memory', ...size } }]
}
