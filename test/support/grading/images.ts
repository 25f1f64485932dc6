import { TESTS_UID } from '../../../src/grading/grader-files.ts'
import { equippedRootfs } from '../base-image.ts'

const apt = (...packages: string[]): string =>
  `apt-get update && apt-get install --yes --no-install-recommends git python3 ca-certificates ${packages.join(' ')}`

/** Debian 13 with Python and pytest. */
export const pythonRootfs = (): Promise<string> => equippedRootfs('python', apt('python3-pytest'))

/** What Go compiled once need not be compiled in every sandbox. */
const WARM_GO = `mkdir -p /home/tests && cd /tmp && export HOME=/home/tests
printf 'package main\nimport ("fmt"; "testing")\nfunc TestNothing(t *testing.T) { fmt.Println() }\n' > warm_test.go
go test warm_test.go && rm warm_test.go
chown -R ${TESTS_UID}:${TESTS_UID} /home/tests`

/** Debian 13 with the runners that every change is tried with. */
export const shortRootfs = (): Promise<string> =>
  equippedRootfs('runners', `${apt('python3-pytest', 'nodejs', 'golang-go')}\n${WARM_GO}`)

/** Those that this machine trusts, among them perhaps one of its own. */
const TRUST = `cd /usr/local/share/ca-certificates
csplit -s -z -f machine- -b %03d.crt ../machine.crt '/-----BEGIN CERTIFICATE-----/' '{*}'
update-ca-certificates`

/** Where Node looks when a repository has nothing of its own. */
const JAVASCRIPT = `mkdir -p /workspace && cd /workspace && export NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
npm install --no-audit --no-fund --no-package-lock jest@29.7.0 vitest@3.2.4 mocha@11.7.1
mv node_modules /opt/node_modules && rm -rf /workspace/* && ln -s /opt/node_modules /workspace/node_modules`

const POM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>warm</artifactId><version>1</version>
<properties><maven.compiler.release>21</maven.compiler.release><project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>
<dependencies><dependency><groupId>org.junit.jupiter</groupId><artifactId>junit-jupiter</artifactId><version>5.11.4</version><scope>test</scope></dependency></dependencies>
<build><plugins><plugin><artifactId>maven-surefire-plugin</artifactId><version>3.5.2</version></plugin></plugins></build>
</project>`

/** Maven has its plugins from a test of nothing. */
const WARM_MAVEN = `mkdir -p /tmp/warm/src/test/java && cd /tmp/warm
cat > pom.xml <<'END'
${POM}
END
printf 'class WarmTest { @org.junit.jupiter.api.Test void nothing() {} }\n' > src/test/java/WarmTest.java
mvn -B -q -Duser.home=/home/tests test && rm -rf /tmp/warm`

/** Those that take longer, or much room. */
export const longRootfs = (): Promise<string> =>
  equippedRootfs(
    'more-runners',
    [
      apt('nodejs npm cargo rustc cmake make g++ ruby-rspec phpunit gradle junit4 openjdk-21-jdk-headless maven'),
      TRUST,
      JAVASCRIPT,
      'mkdir -p /home/tests',
      WARM_MAVEN,
      `chown -R ${TESTS_UID}:${TESTS_UID} /home/tests`,
    ].join('\n'),
  )
