-- Size of the archive of an import, for the quota of its workspace.
alter table batches add column archive_bytes bigint not null default 0;
