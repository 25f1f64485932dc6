import { expect, test } from 'vitest'
import { admitGit } from './git-address.ts'

const resolvesTo = (...addresses: string[]) => admitGit('http://10.0.0.1:8080', async () => addresses)
const V4 = '93.184.216.34'
const V6 = '2606:4700::1111'

test('git goes to the addresses that were checked, whatever the name means a moment later', async () => {
  const admit = resolvesTo(V4, V6)

  expect(await admit('https://git.example.org/a')).toEqual({
    protocol: 'https',
    pin: `git.example.org:443:${V4},[${V6}]`,
  })
  expect(await admit('https://git.example.org:8443/a')).toMatchObject({ pin: `git.example.org:8443:${V4},[${V6}]` })
})

test.each([
  ['a private address', ['10.0.0.1']],
  ['a private address among public ones', [V4, '127.0.0.1']],
  ['the metadata of a cloud', ['169.254.169.254']],
  ['no address', []],
])('a name with %s is refused', async (_, addresses) => {
  await expect(resolvesTo(...addresses)('https://git.example.org/a')).rejects.toMatchObject({ isLasting: true })
})

test('the server that the list comes from may be private, another port of it may not', async () => {
  expect(await resolvesTo()('http://10.0.0.1:8080/a')).toEqual({ protocol: 'http', pin: undefined })
  await expect(resolvesTo()('http://10.0.0.1:8081/a')).rejects.toMatchObject({ isLasting: true })
  await expect(resolvesTo()('https://10.0.0.1/a')).rejects.toMatchObject({ isLasting: true })
})
