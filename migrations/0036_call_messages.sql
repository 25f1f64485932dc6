-- The provider's own words about a call that failed, or why it could not be reached. Short, without secrets.
alter table gateway_calls add column message text;
