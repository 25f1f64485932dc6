-- Number of attempts whose worker died. Unlike crashes, it does not count outages of the database.
alter table jobs add column deaths integer not null default 0;
