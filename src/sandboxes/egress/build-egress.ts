import type { Dockerfile } from '../../harbor/dockerfile.ts'
import type { AllowedHost } from '../../platform/outbound/url-rules.ts'
import { buildEnterArgs, type NamespaceProcess } from '../kernel/namespace-process.ts'
import { openPorts } from '../kernel/ports.ts'
import type { Port } from '../sandbox.ts'
import { createEgress } from './egress.ts'

/** Egress proxy of one build. */
type BuildEgress = {
  port: Port
  env: Record<string, string>
  /** Closes the proxy and logs refused destinations, which the operator may want to allow. */
  close(onLog: (line: string) => void): void
}

const LOGGED_REFUSALS_MAX = 10

/** Opens egress to public hosts and to hosts that the operator allows. Builds run untrusted code, so no others are allowed. */
export function openBuildEgress(allowedHosts: readonly AllowedHost[]): BuildEgress {
  const egress = createEgress({ mode: 'public', hosts: [] }, { allowedHosts })
  return {
    port: { port: PROXY_PORT, onConnection: egress.onConnection },
    env: { ...buildProxyEnv(), JAVA_TOOL_OPTIONS },
    close(onLog) {
      egress.close()
      for (const { host, reason } of egress.summary().refused.first.slice(0, LOGGED_REFUSALS_MAX)) {
        onLog(`${host} was refused (${reason}). Builds may reach public hosts and the hosts in ASSAY_BUILD_HOSTS.`)
      }
    },
  }
}

/** Port of the proxy. A high, unassigned number, because tasks may start servers on the usual ports. */
export const PROXY_PORT = 31_280

/** Proxy settings for Java, which ignores the usual variables. The last one is for Maven. */
const JAVA_TOOL_OPTIONS = [
  ...['http', 'https'].flatMap((scheme) => [`-D${scheme}.proxyHost=127.0.0.1`, `-D${scheme}.proxyPort=${PROXY_PORT}`]),
  '-Daether.connector.http.useSystemProperties=true',
].join(' ')

/** Build arguments that every builder passes to commands without ARG. */
const PREDEFINED_ARGS = /^(https?|no)_proxy$/i

/**
 * Returns the build arguments, which do not become part of the image. Arguments other than proxy settings are visible
 * only after `ARG`.
 */
export function buildArgs(env: Record<string, string>, { stages }: Dockerfile): Record<string, string> {
  const declared = new Set(
    stages.flatMap(({ instructions }) =>
      instructions.flatMap(({ keyword, pairs }) => (keyword === 'ARG' ? pairs.map(({ name }) => name) : [])),
    ),
  )
  return Object.fromEntries(Object.entries(env).filter(([name]) => PREDEFINED_ARGS.test(name) || declared.has(name)))
}

export const LOOPBACK = 'localhost,127.0.0.1,::1'

/** Returns the variables that announce the proxy on the loopback. Programs differ in the spelling they read. */
export function buildProxyEnv(direct: string[] = []): Record<string, string> {
  const proxy = `http://127.0.0.1:${PROXY_PORT}`
  const noProxy = [LOOPBACK, ...direct].join(',')
  return {
    HTTP_PROXY: proxy,
    HTTPS_PROXY: proxy,
    http_proxy: proxy,
    https_proxy: proxy,
    NO_PROXY: noProxy,
    no_proxy: noProxy,
    NODE_USE_ENV_PROXY: '1', // without it, Node's fetch ignores the proxy
  }
}

export type LocalBuildNetwork = { env: Record<string, string>; close(): void }

type BuildNetworkOptions = { rootless: boolean; buildHosts: readonly AllowedHost[]; onLog: (line: string) => void }

/** Opens the network of a build in an isolated network namespace: a loopback with one port, to the egress proxy. */
export async function openBuildNetwork(
  namespaceProcess: NamespaceProcess,
  { rootless, buildHosts, onLog }: BuildNetworkOptions,
): Promise<LocalBuildNetwork> {
  const { code } = await namespaceProcess.run('ip link set dev lo up')
  if (code !== 0) {
    onLog('This build has no network, because `ip` of iproute2 does not work here.')
    return { env: {}, close: () => {} }
  }
  const egress = openBuildEgress(buildHosts)
  const servers = await openPorts(buildEnterArgs(namespaceProcess.pid, rootless, '--net'), [egress.port])
  return {
    env: egress.env,
    close() {
      for (const server of servers) server.close()
      egress.close(onLog)
    },
  }
}
