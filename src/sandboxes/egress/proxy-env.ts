/** High, and no other program's: a task may start servers of its own on the usual ones. */
export const PROXY_PORT = 31_280

export const LOOPBACK = 'localhost,127.0.0.1,::1'

/** Tells programs of the proxy on their loopback. They differ in which spelling they read. */
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
    NODE_USE_ENV_PROXY: '1', // else Node's own fetch knows no proxy
  }
}
