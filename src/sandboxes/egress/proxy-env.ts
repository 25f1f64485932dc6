/** Port of the proxy. A high, unassigned number, because tasks may start servers on the usual ports. */
export const PROXY_PORT = 31_280

export const LOOPBACK = 'localhost,127.0.0.1,::1'

/** Returns the variables that announce the proxy on the loopback. Programs differ in the spelling they read. */
export function proxyEnv(direct: string[] = []): Record<string, string> {
  const proxy = `http://127.0.0.1:${PROXY_PORT}`
  const without = [LOOPBACK, ...direct].join(',')
  return {
    HTTP_PROXY: proxy,
    HTTPS_PROXY: proxy,
    http_proxy: proxy,
    https_proxy: proxy,
    NO_PROXY: without,
    no_proxy: without,
    NODE_USE_ENV_PROXY: '1', // without it, Node's fetch ignores the proxy
  }
}
