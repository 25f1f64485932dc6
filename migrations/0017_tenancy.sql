-- When the code host was last asked whether a repository is public. Null: never since it was connected.
alter table repositories add column visibility_checked_at timestamptz(3);
