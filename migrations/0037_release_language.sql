-- The programming language of most tasks of a release. Null if no source file shows it, and in older releases.
alter table releases add column language text;
alter table result_lines add column language text;
