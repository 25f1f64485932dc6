#!/bin/bash
umask 077
mkdir /home/dev/box
id -un > /home/dev/box/note
