-- Factor of the tasks' time limits. Null for a setting with unchanged limits.
alter table comparison_settings add column timeout_multiplier double precision;
