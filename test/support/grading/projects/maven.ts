import type { SampleProject } from '../sample-project.ts'

const POM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>shapes</artifactId><version>1</version>
<properties><maven.compiler.release>21</maven.compiler.release><project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>
<dependencies><dependency><groupId>org.junit.jupiter</groupId><artifactId>junit-jupiter</artifactId><version>5.11.4</version><scope>test</scope></dependency></dependencies>
<build><plugins><plugin><artifactId>maven-surefire-plugin</artifactId><version>3.5.2</version></plugin></plugins></build>
</project>
`

export const mavenSample: SampleProject = {
  runner: 'maven',
  tree: {
    'pom.xml': POM,
    'src/main/java/org/example/Shapes.java':
      'package org.example;\npublic class Shapes { public static int area(int side) { return side * side; } }\n',
    'src/test/java/org/example/ShapesTest.java': `package org.example;
import static org.junit.jupiter.api.Assertions.*;
import org.junit.jupiter.api.*;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ShapesTest {
  @Test void square() { assertEquals(4, Shapes.area(2)); }
  @Test void wrong() { assertEquals(5, Shapes.area(2)); }
  @Test void error() { throw new IllegalStateException("no such shape"); }
  @Test @Disabled("later") void later() {}
  @Test void größe() { assertEquals(9, Shapes.area(3)); }
  @ParameterizedTest @ValueSource(strings = {"面積", "<&>"}) void text(String text) { assertNotNull(text); }
  @Nested class Inner { @Test void square() {} }
}
`,
    'src/test/java/org/example/OtherTest.java':
      'package org.example;\nclass OtherTest { @org.junit.jupiter.api.Test void square() {} }\n',
  },
  statuses: {
    'org.example.ShapesTest::square': 'passed',
    'org.example.ShapesTest::wrong': 'failed',
    'org.example.ShapesTest::error': 'errored',
    'org.example.ShapesTest::later': 'skipped',
    'org.example.ShapesTest::größe': 'passed',
    'org.example.ShapesTest::text(String)[1]': 'passed',
    'org.example.ShapesTest::text(String)[2]': 'passed',
    'org.example.ShapesTest$Inner::square': 'passed',
    'org.example.OtherTest::square': 'passed',
  },
  target: 'src/test/java/org/example/OtherTest.java',
  targetStatuses: { 'org.example.OtherTest::square': 'passed' },
  failureMessage: ['org.example.ShapesTest::wrong', 'expected: <5> but was: <4>'],
}
